package stream

import (
	"fmt"
	"slices"
	"time"
)

// Mark is the state of a partition on the broker: it contains records of offsets [Low,
// High), with possible gaps.
type Mark struct {
	Topic     string
	ID        string // distinguishes the topic from others that had its name; "": the broker does not know ids
	Number    int32
	Low, High int64
	Written   int64 // offset behind all records: those from High on belong to, or follow, a transaction that is not complete; 0: unknown

	Begin   int64  // where a stream begins that has not read the topic; -1: Group has committed offsets of other partitions only
	Group   string // consumer group that has committed offsets of the topic; "": none has
	GroupID string // topic of which the group committed it; "": unknown
	Reset   Reset  // where to begin if the log does not have Begin
}

// Reset is where a stream begins if the log does not have the offset that a group committed.
type Reset string

// Resets. The zero value is Fail.
const (
	Fail     Reset = "fail"
	Earliest Reset = "earliest"
	Latest   Reset = "latest"
)

// Range is the offsets [Lo, Hi) of a partition.
type Range struct {
	Topic  string
	ID     string // of the topic
	Number int32
	Lo, Hi int64
}

// Ranges is the verdict about topics. If Span and End are empty, look again later.
type Ranges struct {
	Span    []Range
	End     string   // reason of the end
	Reports []string // about partitions and offsets that are not as the position says
	Lost    int64    // records that were skipped because they no longer exist, as far as known
}

// Topics is a stream of the partitions of topics.
type Topics struct {
	rules Rules // Most: records of a partition
	at    []Partition
	left  []Lag             // ascending, as the last look found it
	held  map[Partition]int // number of looks that have found an incomplete transaction at a position
}

// Lag is the number of records of a partition that wait to be read.
type Lag struct {
	Topic   string
	Number  int32
	Records int64
}

// heldLooks is the number of looks at an incomplete transaction after which it is reported.
const heldLooks = 30

// NewTopics returns a stream from a position on, which may be the zero one.
func NewTopics(rules Rules, at Position) *Topics {
	return &Topics{rules: rules, at: slices.Clone(at.Partitions), held: map[Partition]int{}}
}

// Lags returns what the last look left in each partition.
func (t *Topics) Lags() []Lag { return slices.Clone(t.left) }

// At returns the point up to which each partition has been read.
func (t *Topics) At() []Partition { return slices.Clone(t.at) }

// Next decides from the marks of all partitions. quiet is the time since the last new
// data. After an error the stream must not be used.
func (t *Topics) Next(marks []Mark, quiet time.Duration) (v Ranges, err error) {
	marks = slices.Clone(marks)
	slices.SortFunc(marks, func(a, b Mark) int { return comparePartitions(a.partition(), b.partition()) })
	for rest := marks; len(rest) > 0; {
		n := slices.IndexFunc(rest, func(m Mark) bool { return m.Topic != rest[0].Topic })
		if n < 0 {
			n = len(rest)
		}
		if err := t.reconcile(rest[:n], &v); err != nil {
			return Ranges{}, err
		}
		rest = rest[n:]
	}
	t.left = t.left[:0]
	for _, m := range marks {
		i, _ := slices.BinarySearchFunc(t.at, m.partition(), comparePartitions)
		p, hi := &t.at[i], m.High
		if t.rules.Most > 0 {
			hi = min(hi, p.Next+int64(t.rules.Most))
		}
		t.left = append(t.left, Lag{m.Topic, m.Number, m.High - hi})
		if m.Written > m.High && p.Next == m.High {
			if t.held[*p]++; t.held[*p] == heldLooks {
				v.Reports = append(v.Reports, m.Open())
			}
			continue
		}
		delete(t.held, *p)
		if hi > p.Next {
			v.Span = append(v.Span, Range{m.Topic, m.ID, m.Number, p.Next, hi})
			p.Next = hi
		}
	}
	if len(v.Span) == 0 && t.rules.Idle > 0 && quiet >= t.rules.Idle {
		v.End = fmt.Sprintf("nothing new for %v", t.rules.Idle)
	}
	return v, nil
}

// Open describes the transaction that is not complete, if Written is above High.
func (m Mark) Open() string {
	return fmt.Sprintf("partition %d of topic %s: the records %d to %d cannot be read yet: a transaction is open since offset %d (high watermark %d, last stable offset %d). Its producer must commit or abort it; kafka-transactions.sh find-hanging shows it",
		m.Number, m.Topic, m.High, m.Written-1, m.High, m.Written, m.High)
}

// reconcile makes the position of a topic agree with its marks: it adds new partitions, and decides
// about offsets that the log does not have. Topics without marks keep their position.
func (t *Topics) reconcile(marks []Mark, v *Ranges) error {
	topic, id := marks[0].Topic, marks[0].ID
	first := slices.IndexFunc(t.at, func(p Partition) bool { return p.Topic == topic })
	again, err := t.created(marks, v)
	if err != nil {
		return err
	}
	for _, m := range marks {
		if m.Low < 0 || m.High < m.Low {
			return fmt.Errorf("stream: partition %d of topic %s: the broker reports offsets from %d to %d", m.Number, topic, m.Low, m.High)
		}
		i, known := slices.BinarySearchFunc(t.at, m.partition(), comparePartitions)
		switch {
		case known:
			err = t.within(&t.at[i], m, v)
		case first < 0: // this is the first look
			m.Begin, err = m.begin(v)
		default: // whatever is in a later partition is new
			if m.Begin = m.Low; !again {
				v.Reports = append(v.Reports, fmt.Sprintf("topic %s has a new partition, %d: it is read from its beginning, offset %d", topic, m.Number, m.Low))
			}
		}
		if err != nil {
			return err
		}
		if !known {
			t.at = slices.Insert(t.at, i, Partition{topic, m.Number, m.Begin, id})
		}
		t.at[i].ID = id
	}
	return nil
}

// created reports whether a topic was deleted and created again since it was read, and then removes
// its position. Kafka never removes a partition of a topic.
func (t *Topics) created(marks []Mark, v *Ranges) (again bool, err error) {
	topic, id, why := marks[0].Topic, marks[0].ID, ""
	for _, p := range t.at {
		if p.Topic != topic {
			continue
		}
		if p.ID != "" && id != "" && p.ID != id {
			why = fmt.Sprintf("its id was %s, and is %s now", p.ID, id)
			break
		}
		if _, found := slices.BinarySearchFunc(marks, p, func(m Mark, p Partition) int { return comparePartitions(m.partition(), p) }); !found {
			why = fmt.Sprintf("its partition %d is gone", p.Number)
		}
	}
	if why == "" {
		return false, nil
	}
	if !t.rules.Skip {
		return false, fmt.Errorf("stream: topic %s was deleted and created again: %s. The offsets read so far are those of the deleted topic: resume with data.follow.lost: skip to read the new one from its beginning", topic, why)
	}
	t.at = slices.DeleteFunc(t.at, func(p Partition) bool { return p.Topic == topic })
	v.Reports = append(v.Reports, fmt.Sprintf("topic %s was deleted and created again: %s. The new one is read from its beginning. Records of the deleted one that were not read are lost", topic, why))
	return true, nil
}

// within moves a partition to the offsets that the log has.
func (t *Topics) within(p *Partition, m Mark, v *Ranges) error {
	var lost, advice string
	switch where := fmt.Sprintf("partition %d of topic %s", m.Number, m.Topic); {
	case p.Next < m.Low:
		lost = fmt.Sprintf("%s: the records %d to %d were deleted before they were read", where, p.Next, m.Low-1)
		advice = "keep them longer (retention.ms)"
	case p.Next > m.High:
		lost = fmt.Sprintf("%s ends at offset %d, and %d were read: the broker has lost records", where, m.High, p.Next)
		advice = "an unclean election of a leader loses them, and so does a topic that is created again"
	default:
		return nil
	}
	if !t.rules.Skip {
		return fmt.Errorf("stream: %s: %s; resume with data.follow.lost: skip to continue at offset %d", lost, advice, m.nearest(p.Next))
	}
	v.Lost += max(m.Low-p.Next, 0)
	p.Next = m.nearest(p.Next)
	v.Reports = append(v.Reports, fmt.Sprintf("%s. Reading continues at offset %d", lost, p.Next))
	return nil
}

// begin returns the offset at which a stream begins that has not read the topic.
func (m Mark) begin(v *Ranges) (int64, error) {
	void := ""
	switch {
	case m.Group == "":
		return m.nearest(m.Begin), nil
	case m.Begin < 0:
		v.Reports = append(v.Reports, fmt.Sprintf("group %s has committed no offset of partition %d of topic %s, and offsets of other partitions: it is read from its beginning, offset %d", m.Group, m.Number, m.Topic, m.Low))
		return m.Low, nil
	case m.GroupID != "" && m.ID != "" && m.GroupID != m.ID:
		void = fmt.Sprintf("of a deleted topic: its id was %s, and is %s", m.GroupID, m.ID)
	case m.Begin != m.nearest(m.Begin):
		void = fmt.Sprintf("outside the log, which begins at offset %d and ends at %d", m.Low, m.High)
	default:
		return m.Begin, nil
	}
	line := fmt.Sprintf("partition %d of topic %s: the offset %d that group %s committed is %s", m.Number, m.Topic, m.Begin, m.Group, void)
	at := m.Low
	switch m.Reset {
	case Earliest:
	case Latest:
		at = m.High
	default:
		return 0, fmt.Errorf("stream: %s; add reset=earliest or reset=latest to the address to begin at one of its ends, or leave the group out", line)
	}
	v.Reports = append(v.Reports, fmt.Sprintf("%s; reading begins at %d (reset=%s)", line, at, m.Reset))
	return at, nil
}

// nearest returns the offset of the log that is nearest to a given one.
func (m Mark) nearest(offset int64) int64 { return min(max(offset, m.Low), m.High) }

func (m Mark) partition() Partition { return Partition{Topic: m.Topic, Number: m.Number} }
