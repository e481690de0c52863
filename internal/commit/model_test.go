package commit

import (
	"encoding/binary"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
)

var exhaustive = flag.Bool("exhaustive", false, "visit the large worlds too (minutes, gigabytes)")

// A model is a small world of real state machines whose every reachable state is
// visited, breadth first. The network is a set of messages that only grows: what
// was sent may be delivered at any time, any number of times, or never, which
// covers lost, repeated, late and overtaken messages. A coordinator that is
// taken over from is not told, which covers one that is dead and one that is not.
//
// Machines are deterministic, so each pair of a machine's state and an event is
// run once and remembered; a world is a few small numbers.
type model struct {
	name    string
	cfg     Config
	queue   Queue
	steps   int64 // nobody may get beyond: a bound of the search
	leads   int   // coordinators, one after another
	losses  int   // ranks that may end
	retries int   // times that a coordinator repeats what is outstanding
	split   bool  // pulls and rows travel like other messages, and not at once

	t       testing.TB
	parts   []part
	partIDs map[string]int32
	effects map[[2]int32]effect
	letters []Message
	letter  map[string]int32
	past    map[uint64][]Record // history by digest
	fault   string
	again   bool // asks are delivered at once
	calm    bool // nothing fails any more: messages wait in queued instead
	queued  []int32
}

// part is one frozen machine state.
type part struct {
	c   *Coordinator
	o   *Owner
	w   *Worker
	err string // a rule that it broke
}

// effect is what an event does to a part.
type effect struct {
	next  int32
	sends []int32
	notes []Note
}

// world is one state of everything; comparable.
type world struct {
	leads    [2]int32 // 0: not yet there
	owners   [3]int32 // 0: ended or never there
	workers  [3]int32
	losses   int8
	restored int8
	retries  int8
	sent     [12]uint64
}

// Events beyond the delivery of a message.
const (
	evStart = -1 - iota
	evRedo
	evRetry        // repeat what is outstanding
	evJoin  = -100 // minus the rank
	evLeave = -200
)

func newModel(t testing.TB, m model) *model {
	m.t = t
	m.parts = make([]part, 1) // 0 is nobody
	m.partIDs, m.effects = map[string]int32{}, map[[2]int32]effect{}
	m.letter, m.past = map[string]int32{}, map[uint64][]Record{}
	m.cfg = m.cfg.Default()
	return &m
}

func (m *model) first(generation int) (w world) {
	start := Record{Queue: m.queue}
	for r := range m.cfg.Workers {
		wk := NewWorker(r, MakeTerm(generation, 0, 0))
		wk.mutant = m.cfg.mutant
		w.workers[r] = m.intern(part{w: wk})
	}
	for _, r := range m.cfg.Owners {
		o := NewOwner(r, MakeTerm(generation, 0, 0), start, 0)
		o.mutant = m.cfg.mutant
		w.owners[r] = m.intern(part{o: o})
	}
	return w
}

func (m *model) intern(p part) int32 {
	key := string(p.key())
	id, ok := m.partIDs[key]
	if !ok {
		id = int32(len(m.parts))
		m.parts, m.partIDs[key] = append(m.parts, p), id
	}
	return id
}

func (m *model) post(x Message) int32 {
	key := string(appendMessage(nil, x))
	id, ok := m.letter[key]
	if !ok {
		id = int32(len(m.letters))
		m.letters, m.letter[key] = append(m.letters, x), id
	}
	return id
}

// run lets a part have an event.
func (m *model) run(id, event int32) effect {
	if e, ok := m.effects[[2]int32{id, event}]; ok {
		return e
	}
	var e effect
	p := m.parts[id]
	switch {
	case p.c != nil:
		e = m.lead(p.c.clone(), event)
	case p.o != nil:
		e = m.own(p.o.clone(), event)
	default:
		e = m.work(p.w.clone(), event)
	}
	m.effects[[2]int32{id, event}] = e
	return e
}

func (m *model) mail(out []Message) (ids []int32) {
	for _, x := range out {
		ids = append(ids, m.post(x))
	}
	return ids
}

func (m *model) lead(c *Coordinator, event int32) effect {
	var out []Message
	var notes []Note
	switch {
	case event >= 0:
		out, notes = c.Receive(0, m.letters[event])
	case event == evStart:
		out, notes = c.Start(0)
	case event == evRedo:
		c.begin(0)
		c.redo(0, true)
		out, notes = c.answer()
	case event == evRetry:
		out, notes = c.Retry(0)
	case event <= evLeave:
		out, notes = c.Leave(0, int(evLeave-event))
	default:
		out, notes = c.Join(0, int(evJoin-event))
	}
	return effect{next: m.intern(part{c: c}), sends: m.mail(out), notes: slices.Clone(notes)}
}

func (m *model) own(o *Owner, event int32) effect {
	before := o.digest
	out, err := o.Receive(m.letters[event])
	p := part{o: o}
	if err != nil {
		p.err = err.Error()
	}
	if out.Act == Apply {
		p.err = m.applied(before, o.digest, *out.Record)
	}
	return effect{next: m.intern(p), sends: m.mail(out.Messages)}
}

func (m *model) work(w *Worker, event int32) effect {
	var out Outcome
	if event == evRetry {
		out = w.Retry()
	} else {
		out = w.Receive(m.letters[event], 0)
	}
	p := part{w: w}
	sends := m.mail(out.Messages)
	if out.Act == Compute {
		for _, c := range w.chunks {
			if slices.Contains(w.lease.Owners, c.owner) && c.digest != w.digest {
				p.err = fmt.Sprintf("worker %d computes with a dense chunk of owner %d of another history", w.rank, c.owner)
			}
		}
		sends = append(sends, m.mail(w.Computed(out.Tag).Messages)...)
	}
	return effect{next: m.intern(p), sends: sends}
}

// applied checks one step of an owner's history, the naive way.
func (m *model) applied(before, after uint64, r Record) string {
	r.Pieces = slices.Clone(r.Pieces) // histories are known by digest, and attempts are not in it
	for i := range r.Pieces {
		r.Pieces[i].Attempt = 0
	}
	past := append(slices.Clone(m.past[before]), r)
	m.past[after] = past
	seen, samples := map[Batch]bool{}, int64(0)
	for i, r := range past {
		if r.Step != int64(i)+1 {
			return fmt.Sprintf("step %d is applied as number %d", r.Step, i+1)
		}
		for _, p := range r.Pieces {
			if seen[p.Batch] {
				return fmt.Sprintf("step %d counts rows %d of epoch %d again", r.Step, p.Batch.First, p.Batch.Epoch)
			}
			seen[p.Batch] = true
		}
	}
	for _, p := range r.Pieces {
		samples += p.Batch.Rows
	}
	if samples != r.Samples {
		return fmt.Sprintf("step %d divides by %d samples and holds %d", r.Step, r.Samples, samples)
	}
	batches := (m.queue.Total + m.queue.Size - 1) / m.queue.Size
	left := batches - int64(len(seen)-len(r.Pieces))%batches
	if want := min(int64(m.cfg.Slots-m.cfg.Backup), left); int64(len(r.Pieces)) != want {
		return fmt.Sprintf("step %d counts %d slots, want %d", r.Step, len(r.Pieces), want)
	}
	if r.Queue.Left() == 0 {
		for first := int64(0); first < m.queue.Total; first += m.queue.Size {
			if b := r.Queue.batch(first); !seen[b] {
				return fmt.Sprintf("epoch %d ends without rows %d", b.Epoch, first)
			}
		}
	}
	return ""
}

// set gives a part of a world an event, and posts what it sends.
func (m *model) set(w *world, at *int32, event int32) {
	e := m.run(*at, event)
	*at = e.next
	if err := m.parts[e.next].err; err != "" {
		m.fault = err
	}
	for _, n := range e.notes {
		m.noted(w, n)
	}
	for _, id := range e.sends {
		x := &m.letters[id]
		if x.Tag.Step > m.steps {
			continue
		}
		if k := x.Kind; !m.split && (k == Pull || k == Rows || k == Stale) || m.again && k == Ask {
			m.deliver(w, id)
			continue
		}
		if m.calm {
			m.queued = append(m.queued, id)
			continue
		}
		if m.spent(w, x) {
			continue
		}
		if int(id) >= 64*len(w.sent) {
			m.t.Fatalf("%s: more than %d different messages", m.name, 64*len(w.sent))
		}
		w.sent[id/64] |= 1 << (id % 64)
	}
}

// noted checks what a coordinator says, and restores when shards are lost.
func (m *model) noted(w *world, n Note) {
	switch n.Event {
	case Finished:
		for r, id := range w.owners {
			if id == 0 || n.Record.Step == 0 {
				continue
			}
			o := m.parts[id].o
			past := m.past[o.digest]
			if o.record.Step < n.Record.Step || !alike(past[n.Record.Step-1].Pieces, n.Record.Pieces) {
				m.fault = fmt.Sprintf("step %d is said to be applied by all, owner %d has it not", n.Record.Step, r)
			}
		}
	case Poisoned:
		m.fault = n.Text
	case Lost:
		if m.cfg.Replicas > 1 {
			m.fault = n.Text
		}
		w.restored++
	}
}

// alike compares pieces but for the attempt.
func alike(a, b []Piece) bool {
	return slices.EqualFunc(a, b, func(x, y Piece) bool { return x.Slot == y.Slot && x.Batch == y.Batch })
}

// deliver hands a message to its receiver.
func (m *model) deliver(w *world, id int32) {
	x := &m.letters[id]
	switch {
	case x.To == Lead:
		for i, c := range w.leads {
			if c != 0 && m.parts[c].c.term == x.Tag.Term {
				m.set(w, &w.leads[i], id)
			}
		}
	case slices.Contains([]Kind{Lease, Cancel, Rows, Stale}, x.Kind):
		if w.workers[x.To] != 0 {
			m.set(w, &w.workers[x.To], id)
		}
	case w.owners[x.To] != 0:
		m.set(w, &w.owners[x.To], id)
	}
}

// spent reports whether a message can have no effect any more, because numbers
// that only grow have passed it: such messages are not kept. What they would
// only do is make a part stop that nobody listens to any more.
func (m *model) spent(w *world, x *Message) bool {
	switch {
	case x.To == Lead:
		return m.heard(w, x)
	case slices.Contains([]Kind{Lease, Cancel, Rows, Stale}, x.Kind):
		id := w.workers[x.To]
		return id == 0 || x.Tag.before(m.parts[id].w.lease.Tag)
	}
	id := w.owners[x.To]
	if id == 0 {
		return true
	}
	o := m.parts[id].o
	if x.Kind == Ask {
		return x.Tag.Term <= o.term
	}
	obeys := m.cfg.mutant == noFence || m.cfg.mutant == lateWithdraw && x.Kind == Withdraw
	return x.Tag.Term < o.term && !obeys || x.Tag.Step <= o.record.Step
}

// heard is spent for messages to coordinators.
func (m *model) heard(w *world, x *Message) bool {
	for _, id := range w.leads {
		if id == 0 || m.parts[id].c.term != x.Tag.Term {
			continue
		}
		switch c := m.parts[id].c; {
		case c.stage == over:
			return true
		case x.Kind == Ready:
			return x.Tag.before(c.seats[x.From].tag)
		case c.stage == gathering:
			return x.Kind == State && c.owners[c.owner(x.From)].answered
		case x.Kind == Applied:
			return x.Tag.Step <= c.owners[c.owner(x.From)].version
		case x.Kind == Staged:
			return x.Tag.Step <= c.record.Step || m.cfg.mutant == sound && x.Tag.Slot < len(c.slots) && c.slots[x.Tag.Slot].complete
		case x.Kind == State:
			return x.Record.Step < c.record.Step-1
		}
		return false
	}
	return true
}

// sweep forgets the messages that are spent.
func (m *model) sweep(w *world) {
	for i, word := range w.sent {
		for b := int32(0); word != 0; b, word = b+1, word>>1 {
			if word&1 != 0 && m.spent(w, &m.letters[int32(i)*64+b]) {
				w.sent[i] &^= 1 << b
			}
		}
	}
}

// takeover begins the next coordinator's term.
func (m *model) takeover(w *world, i int) {
	cfg := m.cfg
	cfg.Owners = nil
	for r, id := range w.owners {
		if id != 0 {
			cfg.Owners = append(cfg.Owners, r)
		}
	}
	w.leads[i] = m.intern(part{c: NewCoordinator(cfg, MakeTerm(int(w.restored)+1, i+1, i))})
	m.set(w, &w.leads[i], evStart)
	for r, id := range w.workers {
		if id != 0 {
			m.set(w, &w.leads[i], int32(evJoin-r))
		}
	}
}

// lose ends a rank; the latest coordinator learns of it.
func (m *model) lose(w *world, r int) {
	w.owners[r], w.workers[r] = 0, 0
	w.losses++
	before := w.restored
	for i := len(w.leads) - 1; i >= 0; i-- {
		if w.leads[i] != 0 {
			m.set(w, &w.leads[i], int32(evLeave-r))
			break
		}
	}
	if w.restored == before {
		return
	}
	again := m.first(int(w.restored) + 1) // all begin at the checkpoint, in a new generation
	for r, id := range w.workers {
		if id != 0 {
			again.workers[r] = id
		}
	}
	again.losses, again.restored, again.retries, again.sent = w.losses, w.restored, w.retries, w.sent
	*w = again
	m.takeover(w, 0)
}

// action is one thing that may happen.
type action struct{ kind, arg int32 }

const (
	doDeliver = iota
	doTakeover
	doLose
	doRedo
	doRetry
)

func (m *model) act(w world, a action) world {
	switch a.kind {
	case doDeliver:
		m.deliver(&w, a.arg)
	case doTakeover:
		m.takeover(&w, int(a.arg))
	case doLose:
		m.lose(&w, int(a.arg))
	case doRedo:
		m.set(&w, &w.leads[a.arg], evRedo)
	case doRetry:
		w.retries++
		m.again = true // owners are asked at once: a question is answered once only, see spent
		m.set(&w, &w.leads[a.arg], evRetry)
		m.again = false
	}
	if m.fault == "" {
		m.fault = m.together(&w)
	}
	m.sweep(&w)
	return w
}

// together checks that owners' histories are beginnings of one another.
func (m *model) together(w *world) string {
	var long []Record
	var last *Record
	for r, id := range w.owners {
		if id == 0 {
			continue
		}
		o := m.parts[id].o
		if last != nil && last.Step == o.record.Step && !slices.Equal(last.Pieces, o.record.Pieces) {
			return fmt.Sprintf("step %d: owner %d applied %v, another %v", last.Step, r, o.record.Pieces, last.Pieces)
		}
		last = &o.record
		past := m.past[o.digest]
		if len(past) > len(long) {
			long = past
		}
	}
	for r, id := range w.owners {
		if id == 0 {
			continue
		}
		for i, rec := range m.past[m.parts[id].o.digest] {
			if !alike(rec.Pieces, long[i].Pieces) {
				return fmt.Sprintf("step %d: owner %d applied %v, another %v", i+1, r, rec.Pieces, long[i].Pieces)
			}
		}
	}
	return ""
}

// actions lists what may happen in a world.
func (m *model) actions(w *world, yield func(action)) {
	for i, word := range w.sent {
		for b := int32(0); word != 0; b, word = b+1, word>>1 {
			if word&1 != 0 {
				yield(action{doDeliver, int32(i)*64 + b})
			}
		}
	}
	for i := range m.leads {
		if w.leads[i] == 0 {
			yield(action{doTakeover, int32(i)})
			break
		}
		if m.cfg.Mode == Speculate {
			yield(action{doRedo, int32(i)})
		}
	}
	for i, id := range w.leads {
		if int(w.retries) < m.retries && id != 0 {
			yield(action{doRetry, int32(i)})
		}
	}
	if int(w.losses) < m.losses && w.leads[0] != 0 {
		for r, id := range w.workers {
			if id != 0 {
				yield(action{doLose, int32(r)})
			}
		}
	}
}

// explore visits every reachable world, at most limit of them, and tries from
// each one in every whether it can still finish. It returns how many it saw and
// the first fault with the way there.
func (m *model) explore(limit, every int) (states int, whole bool, fault string) {
	start := m.first(1)
	seen := map[world]int32{start: 0}
	list := []world{start}
	from := []struct {
		parent int32
		by     action
	}{{-1, action{}}}
	for at := 0; at < len(list); at++ {
		w := list[at]
		m.actions(&w, func(a action) {
			if m.fault != "" {
				return
			}
			next := m.act(w, a)
			if next == w && m.fault == "" {
				return
			}
			if _, ok := seen[next]; !ok || m.fault != "" {
				seen[next] = int32(len(list))
				list = append(list, next)
				from = append(from, struct {
					parent int32
					by     action
				}{int32(at), a})
			}
		})
		if m.fault == "" && every > 0 && at%every == 0 {
			m.finish(w)
		}
		if m.fault != "" {
			way := m.way(len(list)-1, func(i int) (int, action) { return int(from[i].parent), from[i].by })
			return len(list), false, m.fault + "\n" + way
		}
		if len(list) > limit {
			return len(list), false, ""
		}
	}
	return len(list), true, ""
}

// way tells how a world was reached.
func (m *model) way(at int, parent func(int) (int, action)) string {
	var lines []string
	for at > 0 {
		p, a := parent(at)
		line := fmt.Sprintf("%d %d", a.kind, a.arg)
		if a.kind == doDeliver {
			x := m.letters[a.arg]
			line = fmt.Sprintf("%v %d→%d %v", x.Kind, x.From, x.To, x.Tag)
		}
		lines = append(lines, line)
		at = p
	}
	slices.Reverse(lines)
	return strings.Join(lines, "\n")
}

// finish loses all that is on its way, lets nothing fail any more, and demands
// that everybody gets to the end by repeating what is outstanding.
func (m *model) finish(w world) {
	w.sent = [12]uint64{}
	m.calm, m.queued = true, nil
	defer func() { m.calm = false }()
	top := -1
	for i, c := range w.leads {
		if c != 0 {
			top = i
		}
	}
	if top < 0 {
		m.takeover(&w, 0)
		top = 0
	}
	for range 100 {
		m.set(&w, &w.leads[top], evRetry)
		m.settle(&w)
		for r, id := range w.workers {
			if id != 0 {
				m.set(&w, &w.workers[r], evRetry)
			}
		}
		m.settle(&w)
		if m.fault != "" || m.ended(&w) {
			return
		}
	}
	if m.fault == "" {
		m.fault = "no progress although nothing fails any more"
	}
}

// settle delivers all that waits, and what that brings about.
func (m *model) settle(w *world) {
	for n := 0; len(m.queued) > 0 && m.fault == ""; n++ {
		id := m.queued[0]
		m.queued = m.queued[1:]
		m.deliver(w, id)
		if m.fault == "" {
			m.fault = m.together(w)
		}
		if n > 10_000 {
			m.fault = "messages without end"
		}
	}
}

// ended reports whether every owner has applied all there is to do.
func (m *model) ended(w *world) bool {
	for _, id := range w.owners {
		if id == 0 {
			continue
		}
		r := m.parts[id].o.record
		if r.Step < m.steps && !(r.Step > 0 && r.Queue.Left() == 0 && r.Queue.Epoch+1 == m.cfg.Epochs) {
			return false
		}
	}
	return true
}

func (m *model) digests() map[uint64]bool {
	ends := map[uint64]bool{}
	for d, past := range m.past {
		if r := past[len(past)-1]; r.Queue.Left() == 0 && r.Queue.Epoch+1 == m.cfg.Epochs {
			ends[d] = true
		}
	}
	return ends
}

// What follows freezes, copies and names machine states.

func (p part) key() []byte {
	switch {
	case p.c != nil:
		return p.c.key()
	case p.o != nil:
		return append(p.o.key(), p.err...)
	default:
		return append(p.w.key(), p.err...)
	}
}

// appendMessage appends to b what tells m from all other messages.
func appendMessage(b []byte, m Message) []byte {
	b = append(b, byte(m.Kind))
	b = uvarints(b, int64(m.From)+1, int64(m.To)+1)
	b = binary.AppendUvarint(b, uint64(m.Tag.Term))
	b = uvarints(b, m.Tag.Step, int64(m.Tag.Slot), int64(m.Tag.Attempt))
	switch m.Kind {
	case Lease:
		b = appendBatch(b, m.Batch)
		b = uvarints(b, int64(len(m.Owners)))
		last := 0
		for _, o := range m.Owners {
			b = uvarints(b, int64(o-last))
			last = o
		}
	case Push:
		b = binary.LittleEndian.AppendUint64(appendBatch(b, m.Batch), m.Digest)
	case Pull:
		b = appendBool(b, m.Dense)
	case Rows:
		b = binary.LittleEndian.AppendUint64(appendBool(b, m.Dense), m.Digest)
	case Ready:
		b = appendBool(append(b, m.Done), m.Failed)
	case State:
		b = binary.LittleEndian.AppendUint64(b, m.Digest)
		b = appendPieces(appendRecord(b, *m.Record), m.Staged)
	case Commit:
		b = appendRecord(b, *m.Record)
	case Fenced:
		b = binary.AppendUvarint(b, uint64(m.Rules))
	case Stale:
		b = appendBool(binary.AppendUvarint(b, uint64(m.Rules)), m.Failed)
	}
	return b
}

func (o *Owner) clone() *Owner {
	x := *o
	x.staged, x.held, x.out = slices.Clone(o.staged), slices.Clone(o.held), nil
	return &x
}

func (o *Owner) key() []byte {
	b := uvarints([]byte{'o', byte(o.rank)}, int64(o.term), int64(o.digest>>1))
	b = appendPieces(appendRecord(b, o.record), o.staged)
	for _, h := range o.held {
		b = appendMessage(b, h)
	}
	return b
}

func (w *Worker) clone() *Worker {
	x := *w
	x.rows, x.chunks, x.out = slices.Clone(w.rows), slices.Clone(w.chunks), nil
	return &x
}

func (w *Worker) key() []byte {
	b := appendMessage([]byte{'w', byte(w.rank), byte(w.phase)}, Message{Kind: Lease, To: w.rank, Tag: w.lease.Tag, Batch: w.lease.Batch, Owners: w.lease.Owners})
	if w.phase == pulling {
		for _, r := range w.rows {
			b = appendBool(b, r)
		}
	}
	if w.phase != free {
		b = binary.LittleEndian.AppendUint64(b, w.digest)
	}
	for _, c := range w.chunks {
		b = binary.LittleEndian.AppendUint64(uvarints(b, int64(c.owner), int64(c.term), c.step), c.digest)
	}
	return b
}

func (c *Coordinator) clone() *Coordinator {
	x := *c
	x.out, x.notes = nil, nil
	x.owners, x.seats, x.free = slices.Clone(c.owners), slices.Clone(c.seats), slices.Clone(c.free)
	x.slots = slices.Clone(c.slots)
	for i := range x.slots {
		s := &x.slots[i]
		s.attempts = slices.Clone(s.attempts)
		for k := range s.attempts {
			s.attempts[k].staged = slices.Clone(s.attempts[k].staged)
		}
	}
	x.gaps = gaps{} // without time they measure nothing
	return &x
}

func (c *Coordinator) key() []byte {
	b := uvarints([]byte{'c', byte(c.stage)}, int64(c.term), int64(c.next), c.told)
	b = appendQueue(appendRecord(appendBool(appendBool(b, c.known), c.rested), c.record), c.queue)
	for _, o := range c.owners {
		b = appendBool(uvarints(b, int64(o.rank), o.version), o.answered)
		if o.answered && c.stage == gathering {
			b = appendMessage(b, o.state)
		}
	}
	for _, s := range c.seats {
		b = uvarints(b, int64(s.life), int64(s.strikes))
		if s.life == busy || s.life == leaving {
			b = uvarints(b, int64(s.tag.Term), s.tag.Step, int64(s.tag.Slot), int64(s.tag.Attempt))
		}
	}
	b = uvarints(b, int64(len(c.free)))
	for _, r := range c.free {
		b = uvarints(b, int64(r))
	}
	for _, s := range c.slots {
		b = uvarints(appendBool(b, s.complete), s.First, int64(s.Tries), int64(s.counted), int64(len(s.failed)), int64(len(s.attempts)))
		for _, a := range s.attempts {
			b = uvarints(b, int64(a.number), int64(a.rank)+1)
			for _, x := range a.staged {
				b = appendBool(b, x)
			}
		}
	}
	return b
}

// epoch is a queue of n microbatches, the last one shorter.
func epoch(n int64) Queue { return Queue{Total: 2*n - 1, Size: 2} }

func dropping(slots, backup int) Config {
	return Config{Mode: Drop, Workers: 2, Slots: slots, Backup: backup, Epochs: 1}
}

func replicated(c Config) Config {
	c.Replicas = 2
	return c
}

// worlds are visited whole, by name. Each is small enough in one direction to
// let another be large; those that take more than a second are visited with
// -exhaustive.
func worlds() map[string]model {
	redo := Config{Mode: Speculate, Workers: 2, Slots: 2, Epochs: 1}
	epochs := dropping(2, 1)
	epochs.Epochs = 2
	return map[string]model{
		"lead":            {cfg: dropping(3, 1), queue: epoch(3), steps: 2, leads: 1},
		"lead split":      {cfg: dropping(3, 1), queue: epoch(3), steps: 1, leads: 1, split: true},
		"takeover":        {cfg: dropping(2, 1), queue: epoch(2), steps: 1, leads: 2},
		"lost replicated": {cfg: replicated(dropping(3, 1)), queue: epoch(3), steps: 2, leads: 1, losses: 1},
		"lost restored":   {cfg: dropping(2, 1), queue: epoch(3), steps: 2, leads: 1, losses: 1},
		"wait":            {cfg: Config{Workers: 2, Slots: 3, Epochs: 1}, queue: epoch(3), steps: 1, leads: 1, retries: 1},
		"speculate":       {cfg: redo, queue: epoch(2), steps: 1, leads: 1},

		"large lead":           {cfg: dropping(3, 1), queue: epoch(3), steps: 2, leads: 1, retries: 1},
		"large lost restored":  {cfg: dropping(2, 1), queue: epoch(3), steps: 3, leads: 1, losses: 1},
		"large lead split":     {cfg: dropping(3, 1), queue: epoch(3), steps: 2, leads: 1, split: true},
		"large epochs":         {cfg: epochs, queue: epoch(2), steps: 4, leads: 1},
		"large takeover":       {cfg: dropping(3, 1), queue: epoch(3), steps: 1, leads: 2},
		"large takeover steps": {cfg: dropping(2, 1), queue: epoch(2), steps: 2, leads: 2},
		"large takeover split": {cfg: dropping(2, 1), queue: epoch(2), steps: 1, leads: 2, split: true},
		"large takeover, lost": {cfg: replicated(dropping(2, 1)), queue: epoch(2), steps: 1, leads: 2, losses: 1},
		"large speculate":      {cfg: redo, queue: epoch(2), steps: 1, leads: 2},
		"large lost, 3 owners": {cfg: Config{Mode: Drop, Workers: 3, Slots: 2, Backup: 1, Epochs: 1, Replicas: 2}, queue: epoch(2), steps: 1, leads: 1, losses: 1},
	}
}

// TestModel visits every reachable state of the worlds, and from every tenth
// state lets nothing fail any more and demands that all gets done.
func TestModel(t *testing.T) {
	for name, w := range worlds() {
		if strings.HasPrefix(name, "large") && !*exhaustive {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w.name = name
			m := newModel(t, w)
			states, whole, fault := m.explore(10_000_000, 10)
			t.Logf("%d states, %d machine states, %d messages", states, len(m.parts), len(m.letters))
			if fault != "" {
				t.Fatal(fault)
			}
			if !whole {
				t.Fatalf("more than %d states", states)
			}
			if ends := m.digests(); m.cfg.Mode != Drop && len(ends) != 1 {
				t.Errorf("%d different results: they should not depend on timing", len(ends))
			}
		})
	}
}

// TestEachRuleIsNeeded breaks the rules one at a time: the model must notice.
func TestEachRuleIsNeeded(t *testing.T) {
	for _, c := range []struct {
		rule  mutant
		world string
		want  string // part of what is noticed
		every int    // see explore
	}{
		{noFence, "takeover", "applied", 0},
		{anyOwner, "lead", "not staged here", 0},
		{perOwner, "lead", "step 1", 0},
		{forgetStaged, "takeover", "not staged here", 0},
		{lateWithdraw, "large speculate", "not staged here", 0},
		{ignoreRecord, "takeover", "without end", 10},
		{loseLate, "lead", "ends without rows", 0},
		{keepChunks, "lost restored", "chunk", 0},
	} {
		if strings.HasPrefix(c.world, "large") && !*exhaustive {
			continue
		}
		t.Run(fmt.Sprint(c.rule), func(t *testing.T) {
			t.Parallel()
			w := worlds()[c.world]
			w.name, w.cfg.mutant = c.world, c.rule
			m := newModel(t, w)
			states, _, fault := m.explore(300_000, c.every)
			if !strings.Contains(fault, c.want) {
				t.Fatalf("%d states, fault %q, want %q", states, fault, c.want)
			}
			fault, way, _ := strings.Cut(fault, "\n")
			t.Logf("after %d states and %d events: %s", states, 1+strings.Count(way, "\n"), fault)
		})
	}
}
