package serve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/wdlrun/wdlrun/internal/serve/rescue"
	"github.com/wdlrun/wdlrun/internal/serve/tfs"
	"github.com/wdlrun/wdlrun/internal/serve/versions"
)

// core answers requests with the versions of its models. The servers of gRPC, REST and the
// administrative address decode requests and encode answers.
type core struct {
	options  Options
	registry *versions.Registry[*servable]
	gate     *gate
	metrics  *counters
	panics   *panics
	live     live
	firsts   firstAnswers
	strange  strange // inputs
	members  strange // of bodies
	health   *modelHealth
}

// newCore returns a core without models. The metrics report the memory of bodies and of in.
func newCore(o Options, bodies *budget, in *inflow) *core {
	s := &core{options: o, gate: newGate(o.Threads, o.Queue), health: newModelHealth()}
	s.metrics = newCounters(s.gate, bodies, in)
	s.panics = &panics{counts: s.metrics.panics, report: o.Panicked}
	s.registry = versions.New(versions.Options[*servable]{Open: s.open, Poll: o.Poll, Report: s.changed})
	s.metrics.registry.MustRegister(&versionGauges{s.registry, &s.firsts, s.panics})
	s.health.update(s.registry.Ready)
	return s
}

// wanted returns the version that a ModelSpec names.
func wanted(spec *tfs.ModelSpec) versions.Want {
	return versions.Want{Model: spec.Name, Version: spec.Version, HasVersion: spec.HasVersion, Label: spec.Label}
}

// answer scores a request with the version that it names. with reads the result from the
// worker, which is reused afterwards.
func (s *core) answer(spec *tfs.ModelSpec, encode batching, with func(m *servable, w *worker) error) error {
	v, err := s.registry.Acquire(wanted(spec))
	if err != nil {
		return fault(err)
	}
	defer v.Release()
	m := v.Model
	w, err := m.worker()
	if err != nil {
		return fault(err)
	}
	var back *worker // nil after a panic: the next request makes a new one
	defer func() { m.workers <- back }()
	err = s.compute(m, w, encode, with)
	back = w
	if err == nil && !m.answered.Load() && !m.answered.Swap(true) {
		s.firsts.note(spec, firstAnswer{v.Number, v.Since, time.Since(v.Since)})
	}
	return err
}

// compute encodes and scores the batch of a request. Only answered requests are counted.
func (s *core) compute(m *servable, w *worker, encode batching, with func(m *servable, w *worker) error) (err error) {
	start := time.Now()
	if w.counts, err = encode(w); err != nil {
		return fault(err)
	}
	w.took.features = time.Since(start)
	if err := m.score(w); err != nil {
		if !m.broken.Swap(true) && s.options.Broken != nil {
			s.options.Broken(m.name, m.version, err)
		}
		return fault(err)
	}
	if m.broken.Load() && m.broken.Swap(false) && s.options.Broken != nil {
		s.options.Broken(m.name, m.version, nil)
	}
	s.metrics.computed(w.took)
	if err := with(m, w); err != nil {
		return err
	}
	m.counters.scored(&w.counts, w.scorer.Unknown())
	if len(w.counts.New) > 0 {
		w.coder.Answered()
		s.strange.report(m.name, w.counts.New, s.options.Ignored)
	}
	return nil
}

// resolved returns the ModelSpec of a response, with the version that computed it.
func (m *servable) resolved(signature string) *tfs.ModelSpec {
	return &tfs.ModelSpec{Name: m.name, Version: m.version, HasVersion: true, Signature: signature}
}

// named returns the signature of a name, or the default one. The others are names of one signature:
// ours and TensorFlow's.
func named(spec *tfs.ModelSpec, code codes.Code, others [2]string) (string, error) {
	switch spec.Signature {
	case "", defaultSignature:
		return defaultSignature, nil
	case others[0], others[1]:
		return spec.Signature, nil
	}
	return "", status.Errorf(code, "serve: model %s has no signature %q for this method; there are %s, %s and %s", spec.Name, spec.Signature, defaultSignature, others[0], others[1])
}

// predict returns the requested outputs, or all if none are named.
func (s *core) predict(spec *tfs.ModelSpec, wanted []string, encode batching, with func(spec *tfs.ModelSpec, outputs []tfs.Output) error) error {
	signature, err := named(spec, codes.FailedPrecondition, predictSignatures)
	if err != nil {
		return err
	}
	return s.answer(spec, encode, func(m *servable, w *worker) error {
		outputs, err := m.choose(w, wanted)
		if err != nil {
			return err
		}
		return with(m.resolved(signature), outputs)
	})
}

// choose returns the requested outputs.
func (m *servable) choose(w *worker, wanted []string) ([]tfs.Output, error) {
	list := make([]tfs.Output, 0, 2*len(m.outputs))
	for i, o := range m.outputs {
		list = append(list, tfs.Output{Name: o.score, Values: w.scores[i]}, tfs.Output{Name: o.logit, Values: w.logit(i)})
	}
	if len(m.renamed) > 0 {
		own := list
		list = make([]tfs.Output, 0, len(m.renamed))
		for _, r := range m.renamed {
			list = append(list, tfs.Output{Name: r.name, Values: own[r.of].Values, Column: r.column})
		}
	}
	if len(wanted) == 0 {
		return list, nil
	}
	chosen := make([]tfs.Output, 0, len(wanted))
	for _, name := range wanted {
		i := slices.IndexFunc(list, func(o tfs.Output) bool { return o.Name == name })
		if i < 0 {
			return nil, invalid("model %s has no output %q; there are %s", m.name, name, namesOf(list))
		}
		if slices.ContainsFunc(chosen, func(o tfs.Output) bool { return o.Name == name }) {
			return nil, invalid("output_filter names %q twice", name)
		}
		chosen = append(chosen, list[i])
	}
	return chosen, nil
}

func namesOf(list []tfs.Output) (text string) {
	for i, o := range list {
		if i > 0 {
			text += ", "
		}
		text += strconv.Quote(o.Name)
	}
	return text
}

// classes returns the two classes of the first label.
func (m *servable) classes(w *worker) ([]tfs.Class, error) {
	if m.outputs[0].label.IsNumber() {
		return nil, invalid("model %s predicts a number, which has no classes; use Regress or Predict", m.name)
	}
	no := make([]float32, w.batch.Rows)
	for i, p := range w.scores[0] {
		no[i] = 1 - p
	}
	return []tfs.Class{{Label: "0", Scores: no}, {Label: "1", Scores: w.scores[0]}}, nil
}

// classify returns the classes of each row.
func (s *core) classify(spec *tfs.ModelSpec, encode batching, with func(spec *tfs.ModelSpec, classes []tfs.Class) error) error {
	signature, err := named(spec, codes.InvalidArgument, classifySignatures)
	if err != nil {
		return err
	}
	return s.answer(spec, encode, func(m *servable, w *worker) error {
		classes, err := m.classes(w)
		if err != nil {
			return err
		}
		return with(m.resolved(signature), classes)
	})
}

// regress returns the score of the first label of each row.
func (s *core) regress(spec *tfs.ModelSpec, encode batching, with func(spec *tfs.ModelSpec, values []float32) error) error {
	signature, err := named(spec, codes.InvalidArgument, regressSignatures)
	if err != nil {
		return err
	}
	return s.answer(spec, encode, func(m *servable, w *worker) error { return with(m.resolved(signature), w.scores[0]) })
}

// infer runs several tasks on the same examples. All tasks must name the same model.
func (s *core) infer(r *tfs.MultiInferenceRequest) (results []tfs.Inference, err error) {
	if len(r.Tasks) == 0 {
		return nil, invalid("a MultiInferenceRequest needs at least one task")
	}
	for i := range r.Tasks {
		t := &r.Tasks[i]
		if wanted(&t.Spec) != wanted(&r.Tasks[0].Spec) {
			return nil, invalid("task %d names another model or version than task 0; all tasks must name the same", i)
		}
		switch t.Method {
		case tfs.MethodClassify:
			_, err = named(&t.Spec, codes.InvalidArgument, classifySignatures)
		case tfs.MethodRegress:
			_, err = named(&t.Spec, codes.InvalidArgument, regressSignatures)
		default:
			// TensorFlow Serving's code for an unknown method name.
			err = status.Errorf(codes.Unimplemented, "serve: task %d: method %q; there are %s and %s", i, t.Method, tfs.MethodClassify, tfs.MethodRegress)
		}
		if err != nil {
			return nil, err
		}
	}
	err = s.answer(&r.Tasks[0].Spec, examples(&r.Input), func(m *servable, w *worker) error {
		for i := range r.Tasks {
			result := tfs.Inference{Spec: *m.resolved(r.Tasks[i].Spec.Signature)}
			if r.Tasks[i].Method == tfs.MethodClassify {
				classes, err := m.classes(w)
				if err != nil {
					return err
				}
				result.Classes = []tfs.Class{classes[0], {Label: "1", Scores: slices.Clone(classes[1].Scores)}}
			} else {
				result.Values = slices.Clone(w.scores[0])
			}
			results = append(results, result)
		}
		return nil
	})
	return results, err
}

// metadata returns the signatures of the named version.
func (s *core) metadata(spec *tfs.ModelSpec) (*tfs.ModelSpec, []tfs.Signature, error) {
	v, err := s.registry.Acquire(wanted(spec))
	if err != nil {
		return nil, nil, fault(err)
	}
	defer v.Release()
	return v.Model.resolved(""), v.Model.signatures, nil
}

// status returns the states of a model's versions, or of the named version.
func (s *core) status(spec *tfs.ModelSpec) (list []tfs.VersionStatus, err error) {
	if spec.Name == "" {
		return nil, invalid("the request names no model")
	}
	all, ok := s.registry.Status(spec.Name)
	if !ok {
		return nil, status.Errorf(codes.NotFound, "serve: there is no model %q", spec.Name)
	}
	number, one := spec.Version, spec.HasVersion
	if spec.Label != "" {
		v, err := s.registry.Acquire(wanted(spec))
		if err != nil {
			return nil, fault(err)
		}
		number, one = v.Number, true
		v.Release()
	}
	for _, x := range all {
		if one && x.Number != number {
			continue
		}
		list = append(list, versionStatus(x))
	}
	if one && len(list) == 0 {
		return nil, status.Errorf(codes.NotFound, "serve: model %s has no version %d", spec.Name, number)
	}
	return list, nil
}

func versionStatus(x versions.Status) tfs.VersionStatus {
	to := tfs.VersionStatus{Version: x.Number}
	to.State = map[versions.State]tfs.State{
		versions.Loading: tfs.Loading, versions.Available: tfs.Available, versions.Unloading: tfs.Unloading, versions.Ended: tfs.End,
	}[x.State]
	if x.Err != nil {
		code := codes.DataLoss
		if _, is := errors.AsType[*Unlike](x.Err); is {
			code = codes.FailedPrecondition
		}
		to.Status = tfs.Status{Code: uint32(code), Message: x.Err.Error()}
	}
	return to
}

// open opens a version for the registry.
func (s *core) open(name string, version int64, dir string, before *servable) (*servable, error) {
	var answers Model
	pause := func() {}
	if before != nil {
		answers, pause = before.Model, newPace().pause
	}
	m, err := s.options.Open(dir, answers, pause)
	if err != nil {
		return nil, err
	}
	var v *servable
	err = rescue.Call(func() (err error) {
		v, err = newServable(name, version, dir, m, &s.options, s.metrics, pause)
		c, _ := m.(chosen)
		if err == nil && before != nil && (c == nil || !c.Chosen()) {
			err = guard(s.options.Guard, before, v, s.live.requests(name), pause)
			v.warmup = nil
		}
		return err
	})
	if _, is := errors.AsType[*Unlike](err); is {
		return nil, errors.Join(err, m.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("serve: %s: %w", dir, err), m.Close())
	}
	return v, nil
}

// changed handles a change of a version.
func (s *core) changed(e versions.Event) {
	if p, is := errors.AsType[*rescue.Panic](e.Err); is {
		s.panics.count("version", p)
	}
	_ = s.panics.rescue("report", func() error {
		s.metrics.changed(e)
		s.health.update(s.registry.Ready)
		if s.options.Report != nil {
			s.options.Report(e)
		}
		return nil
	})
}

// Replace sets the models that are served, all or none; see versions.Registry.Replace.
func (s *core) Replace(ctx context.Context, all []versions.Config) error {
	err := s.registry.Replace(ctx, all)
	s.health.update(s.registry.Ready)
	return err
}

// reload replaces the models.
func (s *core) reload(ctx context.Context, all []versions.Config) error {
	if len(all) == 0 {
		return invalid("the configuration has no model")
	}
	if err := s.Replace(ctx, all); err != nil {
		return status.Errorf(codes.InvalidArgument, "%v; no model has changed", err)
	}
	return nil
}

// method returns the bytes of the response to a request. It must not retain the request.
type method func(ctx context.Context, request []byte) ([]byte, error)

// gated returns a method that waits for a slot of the gate.
func (s *core) gated(m method) method {
	return func(ctx context.Context, request []byte) ([]byte, error) {
		start := time.Now()
		if err := s.gate.enter(ctx); err != nil {
			return nil, err
		}
		defer s.gate.release()
		s.metrics.queue.Observe(time.Since(start).Seconds())
		return m(ctx, request)
	}
}
