package sparse

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/wdlrun/wdlrun/internal/kernel/f32"
	"github.com/wdlrun/wdlrun/sparse/table"
)

// announceWords is the number of words before the counts that a Pull sends to each peer.
// The words are the fingerprint of the configuration, the number of the Pull with its kind,
// and the number of the last step applied with the request for longer windows. The sizes of
// requests for pooled bags follow the counts.
const announceWords = 3

// init sets the method values; the pull must not be copied afterwards.
func (l *pull) init() {
	s, tables := l.store, len(l.store.tables)
	l.epoch, l.foundIn, l.give = make([]uint64, tables), make([]uint64, tables), newSide(s.size, tables)
	l.found = make([][]table.Row, tables)
	for i, t := range s.tables {
		set := table.NewSet(t.Salt(), nil, 1)
		if n := s.workers.n; i >= n {
			set.Share(l.asked[i%n]) // a worker fills its sets one after the other
		}
		l.asked = append(l.asked, set)
	}
	l.onKeys, l.onMarks, l.onRows = l.receiveKeys, l.receiveMarks, l.receiveRows
	l.onIndex, l.onFind, l.onFetch = l.indexTables, l.findTables, l.fetchTables
}

// Pull fetches the rows of a batch; every rank calls it. The rows have the values of
// the last Apply. Gradients start from zero, and the previous contents of the Lookup
// are dropped. bags may be reused once Pull returns.
//
// With insert, a key without a row reads as its initial row. The batch can then be
// pushed, and the Apply that follows inserts the key. Without insert, such a key reads
// as zeros, and Pull changes nothing on any rank. In a table that admits keys after
// several occurrences, it reads as zeros in both cases.
func (s *Store) Pull(l *Lookup, bags []Bags, insert bool) error {
	s.pipeline.wait()
	if err := s.begin("pull", l, insert); err != nil {
		return err
	}
	l.early = false
	err := l.sendKeys(&s.link, bags)
	if err == nil {
		err = l.completeRows()
	}
	return s.end("pull", l, err)
}

// begin clears l and numbers the call.
func (s *Store) begin(call string, l *Lookup, insert bool) error {
	s.owns(call, l)
	if w := s.pipeline.waiting; w != nil && (insert || w == l) {
		return fmt.Errorf("sparse: %s: rank %d of %d: the batch of pull %d is prepared: Complete it first", call, s.rank, s.size, w.number)
	}
	if l.state == pushed {
		for _, g := range s.staged {
			g.own() // the memory that it borrows is about to change
		}
	}
	s.retire(l)
	s.pulls++
	l.state, l.insert, l.number, l.step, l.generation, l.tally = idle, insert, s.pulls, s.stepped, s.generation, Counters{}
	return nil
}

// owns panics if l does not belong to this store, or if the store is closed.
func (s *Store) owns(call string, l *Lookup) {
	switch {
	case s.closed:
		panic("sparse: " + call + ": the Store is closed")
	case l == nil || l.store == nil:
		panic("sparse: " + call + ": the Lookup belongs to no Store: Store.NewLookup makes one")
	case l.store != s:
		panic("sparse: " + call + ": the Lookup belongs to another Store: NewLookup of this one makes one")
	}
}

// end makes l ready for pooling, or returns the error of the call.
func (s *Store) end(call string, l *Lookup, err error) error {
	if err == nil && l.generation != s.generation {
		err = errors.New("the store was reset since: pull again")
	}
	if err != nil {
		l.state = idle
		return fmt.Errorf("sparse: %s %d: rank %d of %d: %w", call, l.number, s.rank, s.size, err)
	}
	s.counters.add(l.tally)
	l.state = reading
	if l.insert {
		l.state = training
		l.grads = floatsOf(l.send.grads.take(4 * len(l.rows)))
		clear(l.grads)
		s.inFlight = append(s.inFlight, l)
		s.shards.countTraffic(l)
	}
	return nil
}

// retire removes l from the batches in flight.
func (s *Store) retire(l *Lookup) {
	s.inFlight = slices.DeleteFunc(s.inFlight, func(x *Lookup) bool { return x == l })
}

// sendKeys sends the keys of a batch to their owners.
func (l *pull) sendKeys(k *link, bags []Bags) error {
	background := k != &l.store.link
	if err := l.index(bags, background); err != nil {
		return err
	}
	if err := l.partition(background); err != nil {
		return err
	}
	if err := l.announceCounts(k); err != nil {
		return err
	}
	if err := k.visit.AllToAllVisit(bytesOf(l.want.keys), l.want.keyBytes, l.give.keyBytes, l.onKeys); err != nil {
		return fmt.Errorf("exchange of keys: %w", err)
	}
	if err := l.store.workers.all(background, l.onIndex); err != nil {
		return err
	}
	if l.bagged != nil {
		if err := l.bagged.exchangeRequests(k); err != nil {
			return err
		}
	}
	l.measure()
	own := l.want.keyBytes[l.store.rank]
	l.tally.RemoteUniqueKeys += int64(len(l.want.keys) - own/8)
	l.tally.KeyBytesSent += int64(8*len(l.want.keys) - own)
	l.tally.KeyBytesReceived += int64(8*len(l.give.keys) - own)
	return nil
}

// receiveKeys stores the keys that a rank requests: their gradients come without keys.
func (l *pull) receiveKeys(from int, part []byte) error {
	copy(bytesOf(l.give.keys[l.give.at[from*len(l.store.tables)]:]), part)
	return nil
}

// indexTables fills asked for the tables of a worker: several ranks request a frequent key,
// which is then found and numbered once.
func (l *pull) indexTables(worker int) error {
	s := l.store
	for t, set := range l.asked {
		if s.size == 1 || !s.workers.has(worker, t) {
			continue
		}
		set.Reset()
		for r := range s.size {
			keys, _ := l.section(r, t)
			set.Add(keys, l.numbers(r, t))
		}
	}
	return nil
}

// findTables finds the rows of all requested keys, for the tables of a worker.
func (l *pull) findTables(worker int) error {
	s := l.store
	for t, x := range s.tables {
		if !s.workers.has(worker, t) {
			continue
		}
		keys := l.asked[t].Keys()
		found := resize(l.found[t], len(keys))
		l.found[t] = found
		if err := x.Find(keys, found); err != nil {
			return err
		}
		for r := range s.size {
			_, held := l.section(r, t)
			for i, id := range l.numbers(r, t) {
				held[i] = found[id]
			}
		}
	}
	return nil
}

// completeRows exchanges the rows that were not sent ahead, and reads this rank's own.
func (l *pull) completeRows() error {
	s, what := l.store, all
	if l.early {
		what = late
	}
	if err := l.exchangeRows(&s.link, what); err != nil {
		return err
	}
	if err := s.workers.all(false, l.onFetch); err != nil {
		return err
	}
	if l.bagged != nil {
		if err := l.bagged.sum(&s.link); err != nil {
			return err
		}
	}
	return nil
}

// fetchTables reads the rows of this rank's own shards, for the tables of a worker.
func (l *pull) fetchTables(worker int) error {
	s := l.store
	for t, x := range s.tables {
		if !s.workers.has(worker, t) {
			continue
		}
		keys, held := l.section(s.rank, t)
		if s.size == 1 || l.phase != all { // otherwise findTables has found them
			if err := x.Find(keys, held); err != nil {
				return err
			}
		}
		i := s.rank*len(s.tables) + t
		rows := l.rows[l.rowAt[i]:l.rowAt[i+1]]
		x.Read(l.fresh(t, keys), held, rows, x.Width())
		s.wire[t].Rows.round(rows)
	}
	return nil
}

// announceCounts exchanges the counts. It makes windows if a rank requests them, and
// allocates memory for the requests of the peers.
func (l *pull) announceCounts(k *link) error {
	s := l.store
	tables := len(s.tables)
	words := announceWords + tables
	if s.pools {
		words += pooledWords
	}
	l.announce, l.announced = resize(l.announce, words*s.size), resize(l.announced, words*s.size)
	for r := range s.size {
		a := l.announce[r*words : (r+1)*words]
		a[0], a[1], a[2] = int64(s.print), l.callWord(), l.step<<1
		if l.send.tooShort() {
			a[2] |= 1
		}
		copy(a[announceWords:], l.want.counts[r*tables:(r+1)*tables])
		if s.pools {
			l.bagged.announce(r, a[announceWords+tables:])
		}
	}
	if err := k.ex.AllToAll(l.announce, l.announced); err != nil {
		return fmt.Errorf("exchange of counts: %w", err)
	}
	l.tally.CountBytesSent += int64(8 * words * (s.size - 1))
	tooShort := false
	for r := range s.size {
		a := l.announced[r*words : (r+1)*words]
		if err := l.readAnnouncement(r, a); err != nil {
			return err
		}
		tooShort = tooShort || a[2]&1 != 0
	}
	l.give.keys = resize(l.give.keys, l.give.layout(s))
	l.held, l.ids = resize(l.held, len(l.give.keys)), resize(l.ids, len(l.give.keys))
	if tooShort && k.alloc != nil {
		return l.moveToWindows(k)
	}
	return nil
}

// moveToWindows grows the windows and copies the keys of the batch into one.
func (l *pull) moveToWindows(k *link) error {
	if err := l.send.grow(k.alloc); err != nil {
		return fmt.Errorf("windows: %w", err)
	}
	keys := wordsOf(l.send.keys.take(8 * len(l.want.keys)))
	copy(keys, l.want.keys)
	l.want.keys = keys
	return nil
}

// callWord returns the number of the pull and its kind in one word.
func (l *pull) callWord() int64 {
	call := l.number << 2
	if l.early {
		call |= 2
	}
	if l.insert {
		call |= 1
	}
	return call
}

// readAnnouncement reads the announcement of rank r.
func (l *pull) readAnnouncement(r int, a []int64) error {
	s := l.store
	if uint64(a[0]) != s.print {
		return fmt.Errorf("rank %d has another configuration (fingerprint %016x, here %016x): open every rank with the same Config", r, uint64(a[0]), s.print)
	}
	if call := l.callWord(); a[1] != call {
		return fmt.Errorf("rank %d is at pull %d with insert=%t, prepared=%t, this rank at pull %d with insert=%t, prepared=%t: every rank must make the same calls in the same order",
			r, a[1]>>2, a[1]&1 == 1, a[1]&2 == 2, l.number, l.insert, l.early)
	}
	if step := a[2] >> 1; step != l.step {
		return fmt.Errorf("rank %d has applied step %d last, this rank step %d: every rank must call Apply for the same steps", r, step, l.step)
	}
	if s.pools {
		if err := l.bagged.readAnnouncement(r, a[announceWords+len(s.tables):]); err != nil {
			return err
		}
	}
	var sum int64
	limit := int64(s.cfg.MaxKeysPerExchange)
	for t, n := range a[announceWords:][:len(s.tables)] {
		if n < 0 || n > limit {
			return fmt.Errorf("rank %d announces %d keys of table %q, 0 to %d are allowed", r, n, s.name(t), limit)
		}
		l.give.counts[r*len(s.tables)+t] = n
		sum += n
	}
	if sum > limit {
		return fmt.Errorf("rank %d announces %d keys, at most %d are allowed: make its batch smaller or raise MaxKeysPerExchange", r, sum, limit)
	}
	return nil
}

// numbers returns the numbers in asked of the keys of a section.
func (l *pull) numbers(rank, t int) []uint32 {
	i := rank*len(l.store.tables) + t
	return l.ids[l.give.at[i]:l.give.at[i+1]]
}

// measured reports whether a Pull is measured. Multiples of the golden ratio are spread
// evenly and have no period. If a step makes two or eight Pulls of different kinds, every
// eighth would always be of the same kind.
func measured(pull int64) bool {
	return uint64(pull)*f32.Golden < math.MaxUint64/loadEvery
}

// measure counts the requested keys, if the Pull is measured.
func (l *pull) measure() {
	if !l.insert || !measured(l.number) {
		return
	}
	s := l.store
	if l.bagged != nil {
		l.bagged.measure()
	}
	for r := range s.size {
		for t, x := range s.tables {
			keys, _ := l.section(r, t)
			bytes := int64(8 + (s.wire[t].Rows.bytes()+s.wire[t].Gradients.bytes())*x.Width())
			for _, key := range keys {
				load := &s.shards.loads[x.ShardOf(key)]
				load.Keys += loadEvery
				load.WireBytes += loadEvery * bytes
			}
		}
	}
}

// countTraffic counts the bytes that this rank exchanges as an owner for a training batch, by
// table.
func (x *Shards) countTraffic(l *Lookup) {
	s := x.store
	for r := range s.size {
		if r == s.rank {
			continue
		}
		for t, of := range s.tables {
			n := int(l.give.counts[r*len(s.tables)+t])
			x.carried[t] += int64(8*n + s.wire[t].Rows.section(n*of.Width()) + s.wire[t].Gradients.section(n*of.Width()))
		}
		if l.bagged != nil {
			l.bagged.countTraffic(r)
		}
	}
}

func (l *pull) receiveMarks(from int, part []byte) error {
	copy(l.want.marks[l.want.markAt[from]:], part)
	return nil
}
