package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/wdlrun/wdlrun/internal/config/network"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/optim"
)

// Set is SetAll for one key whose path and value are known apart, such as by a sweep.
func Set(c *Config, path, text string) error {
	_, err := apply(c, nil, []setting{{path, text}}, false)
	return err
}

// Check returns the faults of a key and its value that other settings cannot remove: the key
// is unknown, or never has that value. It does not change c.
func Check(c *Config, path, text string) error {
	next := c.Clone()
	d := &decoder{schema: newGrammar(), place: map[string]place{}}
	d.set(next, path, text)
	d.schema.walk(reflect.ValueOf(next).Elem(), "", key{}, d.checkValue)
	if len(d.faults) == 0 {
		return nil
	}
	if f := d.faults[0]; f.Path != path {
		return errors.New(f.Path + ": " + f.Msg)
	}
	return errors.New(d.faults[0].Msg)
}

// SetAll changes keys, as flags and sweeps do, each written KEY=VALUE. A path is written as in
// Reference, with an index for entries of lists (train.seed, features[3].encode). The text is
// YAML ([256, 128], {kind: sgd}), except that a key of type text takes it literally. The empty
// text restores the default. Of two settings of one key the last one counts; otherwise their
// order has no effect. All values are set, then the result is checked like a file. An *Error
// holds the faults of all settings and leaves c unchanged. Call SetAll before Fill.
//
// A setting removes the keys of c that it excludes: train.batch removes train.global_batch and
// vice versa. The same holds for data.valid and data.valid_fraction, data.valid_time and
// data.valid_group, train.eval_every and train.eval_steps, label.positive and label.threshold,
// data.header and data.fields. The kind of an update rule removes the constants of the one before. data.valid_fraction=0 removes data.valid_time and data.valid_group. data.format removes the layout of another format. model.kind,
// model.wide=false and model.deep=false remove what only other models use, including dense
// features and crosses. removed describes the removed keys, one line per setting. Two settings
// that exclude each other are a fault.
func SetAll(c *Config, settings []string) (removed []string, err error) {
	return setAll(c, settings, false)
}

// SetUnlabelled is SetAll for data whose labels are not read: data.fields need not have
// them.
func SetUnlabelled(c *Config, settings []string) (removed []string, err error) {
	return setAll(c, settings, true)
}

func setAll(c *Config, settings []string, unlabelled bool) (removed []string, err error) {
	var unread []Fault
	var all []setting
	for _, s := range settings {
		path, text, ok := strings.Cut(s, "=")
		why := ""
		switch path = strings.TrimSpace(path); {
		case !ok:
			why = "has no ="
		case path == "":
			why = "has no key before the ="
		default:
			all = append(all, setting{path, text})
			continue
		}
		unread = append(unread, Fault{Msg: quote(s) + " " + why + ": write KEY=VALUE, such as train.epochs=3"})
	}
	return apply(c, unread, all, unlabelled)
}

// setting is a key and its new value.
type setting struct{ path, text string }

// apply changes a copy of c and stores it in c if there are no faults. unread holds the
// faults known before.
func apply(c *Config, unread []Fault, all []setting, unlabelled bool) (removed []string, err error) {
	next := c.Clone()
	d := &decoder{schema: newGrammar(), place: map[string]place{}, unlabelled: unlabelled}
	var given []setting // settings with a value
	for _, s := range all {
		// Decode each setting separately, so that it is not stopped by the faults of another.
		one := &decoder{schema: d.schema, place: map[string]place{}}
		one.set(next, s.path, s.text)
		d.faults, d.meant = append(d.faults, one.faults...), append(d.meant, one.meant...)
		given = slices.DeleteFunc(given, func(e setting) bool { return within(e.path, s.path) || within(s.path, e.path) }) // the last one wins
		if len(one.faults) == 0 && isSet(next, s.path) {
			given = append(given, s)
		}
	}
	for i, s := range given {
		before := next.Clone()
		before.fillNames() // so that entries of lists are matched by their names
		next.clearExcluded(s.path, c)
		next.clearConstants(s.path, c, given)
		after := next.Clone()
		after.fillNames()
		faults := contradicted(next, given, i)
		if d.faults = append(d.faults, faults...); len(faults) > 0 {
			break // what the others exclude is no longer known
		}
		if gone := goneOf(before, after); gone != "" {
			removed = append(removed, fmt.Sprintf("%s=%s removes %s", s.path, clip(s.text), gone))
		}
	}
	if gone := next.clearHoldOut(c, given); gone != "" {
		removed = append(removed, "data.valid_fraction=0 removes "+gone)
	}
	d.check(next)
	// The lines count within the text of a setting, which is not in a file.
	for i := range d.faults {
		d.faults[i].Line, d.faults[i].Column = 0, 0
	}
	d.faults = append(unread, d.faults...)
	if err := d.err(); err != nil {
		return nil, err
	}
	*c = *next
	return removed, nil
}

// clearHoldOut clears the keys that select the held-out rows, except given ones, if a setting has made
// data.valid_fraction 0, and describes them. was is the Config before all settings.
func (c *Config) clearHoldOut(was *Config, given []setting) string {
	if c.Data.ValidFraction != 0 || was.Data.ValidFraction == 0 {
		return ""
	}
	var gone []string
	for _, key := range []struct {
		path  string
		value *string
	}{{"data.valid_time", &c.Data.ValidTime}, {"data.valid_group", &c.Data.ValidGroup}} {
		if *key.value != "" && !slices.ContainsFunc(given, func(s setting) bool { return s.path == key.path }) {
			gone = append(gone, fmt.Sprintf("%s (%s)", key.path, clip(*key.value)))
			*key.value = ""
		}
	}
	return strings.Join(gone, ", ")
}

// contradicted returns a fault for each setting whose value was cleared by setting i: one of
// the two had no effect.
func contradicted(c *Config, given []setting, i int) (faults []Fault) {
	for k, s := range given {
		if !isSet(c, s.path) {
			first, later := given[min(i, k)], given[max(i, k)]
			faults = append(faults, Fault{Path: later.path, Msg: "contradicts " + first.path + ", which is set too; leave one of them out"})
		}
	}
	return faults
}

// goneOf describes the keys of was that now does not have: crosses (2 entries), model.kind (deepfm).
func goneOf(was, now *Config) string {
	var keys []string
	entries := map[string]int{}
	for _, x := range changes(was, now) {
		key, rest, inList := strings.Cut(x.path, "[")
		if inList {
			_, rest, _ = strings.Cut(rest, "]")
			key += rest
			entries[key]++
		} else {
			key += " (" + clip(x.was) + ")"
		}
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	for i, key := range keys {
		switch n := entries[key]; n {
		case 0:
		case 1:
			keys[i] += " (1 entry)"
		default:
			keys[i] += fmt.Sprintf(" (%d entries)", n)
		}
	}
	return strings.Join(keys, ", ")
}

// isSet reports whether the value at path differs from the zero value that means the default.
func isSet(c *Config, path string) bool {
	d := &decoder{schema: newGrammar()}
	v, _, ok := d.find(reflect.ValueOf(c.Clone()).Elem(), path) // find allocates pointers, so use a clone
	return ok && !v.IsZero()
}

// set changes one key of c if there is no fault.
func (d *decoder) set(c *Config, path, text string) {
	v, k, ok := d.find(reflect.ValueOf(c).Elem(), path)
	if ok {
		d.override(v, k, path, text)
	}
	for i := range d.faults {
		if d.faults[i].Path == "" {
			d.faults[i].Path = path
		}
	}
}

// override sets v to the value of text.
func (d *decoder) override(v reflect.Value, k key, path, text string) {
	v.SetZero()
	switch {
	case text == "":
	case v.Kind() == reflect.String:
		v.SetString(text)
	default:
		if root := d.document([]byte(text)); root != nil {
			d.pair(root, v, path, place{}, k)
		} else if len(d.faults) == 0 {
			d.fault(place{}, path, "%s has no value", quote(text))
		}
	}
	d.place = map[string]place{}
}

// find follows a path from v and allocates nil pointers on the way.
func (d *decoder) find(v reflect.Value, path string) (reflect.Value, key, bool) {
	var k key
	if path == "" {
		d.fault(place{}, "", "the key is empty; name one, such as train.epochs (`wdlrun help config` lists them)")
		return v, k, false
	}
	for at, rest := "", path; rest != "" || at == ""; {
		step, after, _ := strings.Cut(rest, ".")
		rest = after
		name, indexes, _ := strings.Cut(step, "[")
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		if v.Kind() != reflect.Struct {
			d.fault(place{}, path, "%s has no keys inside; it is %s", at, d.schema.kindOf(v.Type()))
			return v, k, false
		}
		field, i := d.schema.field(v.Type(), name)
		if i < 0 {
			d.unknown(place{}, at, name, v.Type())
			return v, k, false
		}
		v, k, at = v.Field(i), field, join(at, name)
		if indexes == "" {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSuffix(indexes, "]"))
		if v.Kind() != reflect.Slice || err != nil || n < 0 || n >= v.Len() || !strings.HasSuffix(indexes, "]") {
			d.fault(place{}, path, "%s", noEntry(at, v))
			return v, k, false
		}
		v, at = v.Index(n), at+"["+indexes
	}
	return v, k, true
}

func noEntry(at string, v reflect.Value) string {
	if v.Kind() != reflect.Slice {
		return at + " is not a list"
	}
	if v.Len() == 0 {
		return fmt.Sprintf("%s has no entries: write them in the file, or all at once: %s=[{KEY: VALUE, …}, …]", at, at)
	}
	return fmt.Sprintf("%s has %d entries; they are counted from 0, as %s[0]", at, v.Len(), at)
}

// clearExcluded clears the settings that the key at path excludes, which is set. was is the
// Config before all settings.
func (c *Config) clearExcluded(path string, was *Config) {
	switch path {
	case "train.batch":
		c.Train.GlobalBatch = 0
	case "train.global_batch":
		c.Train.Batch = 0
	case "data.valid":
		c.Data.ValidFraction, c.Data.ValidTime, c.Data.ValidGroup = 0, "", ""
	case "data.valid_fraction":
		c.Data.Valid = nil
	case "data.valid_time":
		c.Data.ValidGroup = ""
	case "data.valid_group":
		c.Data.ValidTime = ""
	case "train.eval_every":
		c.Train.EvalSteps = 0
	case "train.eval_steps":
		c.Train.EvalEvery = 0
	case "label.positive":
		c.Label.Threshold = nil
	case "label.threshold":
		c.Label.Positive, c.Label.Negative = nil, nil
	case "label.kind":
		if c.Label.IsNumber() {
			c.Label.Positive, c.Label.Negative, c.Label.Threshold = nil, nil, nil
		} else {
			c.Label.Loss = ""
		}
	case "data.format":
		c.dropLayout(was.Data)
	case "data.header":
		c.Data.Fields = nil
	case "data.fields":
		c.Data.Header = false
	case "model.kind":
		c.dropKind()
	case "model.wide":
		if !on(c.Model.Wide) {
			c.dropWide()
		}
	case "model.deep":
		if !on(c.Model.Deep) {
			c.dropDeep()
		}
	}
}

// clearConstants clears the constants of an update rule, except given ones, if the key at path has made it another rule:
// they are of the rule before.
func (c *Config) clearConstants(path string, was *Config, given []setting) {
	for name, now := range map[string]*optim.Rule{"dense": &c.Train.Optimizer.Dense, "deep": &c.Train.Optimizer.Deep, "wide": &c.Train.Optimizer.Wide} {
		at := "train.optimizer." + name
		before := map[string]optim.Rule{"dense": was.Train.Optimizer.Dense, "deep": was.Train.Optimizer.Deep, "wide": was.Train.Optimizer.Wide}[name]
		if path != at+".kind" || now.Kind == before.Kind {
			continue
		}
		kept := optim.Rule{Kind: now.Kind}
		from, to := reflect.ValueOf(now).Elem(), reflect.ValueOf(&kept).Elem()
		for i := range from.NumField() {
			key := at + "." + from.Type().Field(i).Tag.Get("yaml")
			if slices.ContainsFunc(given, func(s setting) bool { return s.path == key }) {
				to.Field(i).Set(from.Field(i))
			}
		}
		*now = kept
	}
}

// dropLayout removes the layout of the records of another format.
func (c *Config) dropLayout(was schema.Source) {
	d := &c.Data
	if d.FormatName() != was.FormatName() && d.Delimiter == was.Delimiter {
		d.Delimiter = ""
	}
	if !d.HasLayout() {
		d.Delimiter, d.Header, d.Fields, d.Comment, d.Multiline, d.Escape = "", false, nil, "", false, ""
	}
}

// dropKind removes settings that the model's kind does not use.
func (c *Config) dropKind() {
	for _, kind := range network.Kinds() {
		if kind.Name != c.Model.Kind && kind.Own != nil {
			c.Model.Value(kind).SetZero()
		}
	}
	if !c.Model.HasWide() {
		c.dropWide()
	}
	if c.Model.Kind != network.Default && !on(c.Model.Deep) {
		c.Model.Deep = nil
	}
}

// dropWide removes settings that only the wide part uses.
func (c *Config) dropWide() {
	c.fillNames() // removing features must not change names
	c.Crosses = nil
	c.Train.Optimizer.Wide, c.Train.L2.Wide = optim.Rule{}, 0
	c.keepFeatures(func(f *schema.Feature) bool {
		f.Wide = nil
		return on(f.Deep)
	})
	for i := range c.Tables {
		c.Tables[i].Wide, c.Tables[i].L2.Wide = nil, nil
	}
	c.keepTables()
}

// dropDeep removes settings that only the deep part uses.
func (c *Config) dropDeep() {
	c.fillNames()
	c.Model = Model{Wide: c.Model.Wide, Deep: c.Model.Deep, Pooling: c.Model.Pooling}
	c.Train.Optimizer.Deep, c.Train.L2.Deep, c.Train.L2.Dense = optim.Rule{}, 0, 0
	c.keepFeatures(func(f *schema.Feature) bool {
		f.Deep = nil
		return sparse(f.Encode) && on(f.Wide)
	})
	for i := range c.Tables {
		t := &c.Tables[i]
		t.Dim, t.Init, t.Deep, t.L2.Deep = 0, Init{}, nil, nil
	}
	c.keepTables()
}

func (c *Config) keepFeatures(keep func(*schema.Feature) bool) {
	kept := c.Features[:0]
	for _, f := range c.Features {
		if keep(&f) {
			kept = append(kept, f)
		}
	}
	c.Features = kept
}

// keepTables removes the entries of tables that are no longer used.
func (c *Config) keepTables() {
	full := c.Clone()
	full.Fill()
	uses := full.uses()
	kept := c.Tables[:0]
	for _, t := range c.Tables {
		if _, ok := uses[t.Name]; ok {
			kept = append(kept, t)
		}
	}
	c.Tables = kept
}
