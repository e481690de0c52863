package stream

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Partition is the offset up to which one partition of a topic has been read.
type Partition struct {
	Topic  string `json:"topic"`
	Number int32  `json:"number"`
	Next   int64  `json:"next"` // offset of the first record that was not taken
}

const maxPartitions = 1 << 16

func comparePartitions(a, b Partition) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Number, b.Number))
}

// Mark is the state of a partition on the broker: it contains records of offsets [Low,
// High), with possible gaps.
type Mark struct {
	Topic     string
	Number    int32
	Low, High int64
	Begin     int64 // where a stream begins that has not read any of it
}

// Range is the offsets [Lo, Hi) of a partition.
type Range struct {
	Topic  string
	Number int32
	Lo, Hi int64
}

// Topics is a stream of the partitions of topics.
type Topics struct {
	rules Rules // Most: records of a partition
	at    []Partition
}

// NewTopics returns a stream from a position on, which may be the zero one.
func NewTopics(rules Rules, at Position) *Topics {
	return &Topics{rules, slices.Clone(at.Partitions)}
}

// At returns the point up to which each partition has been read.
func (t *Topics) At() []Partition { return slices.Clone(t.at) }

// Next decides from the marks of all partitions. quiet is the time since the last new
// data. After an error the stream must not be used.
func (t *Topics) Next(marks []Mark, quiet time.Duration) (span []Range, end string, err error) {
	marks = slices.Clone(marks)
	slices.SortFunc(marks, func(a, b Mark) int { return comparePartitions(a.partition(), b.partition()) })
	for _, p := range t.at {
		if !slices.ContainsFunc(marks, func(m Mark) bool { return m.Topic == p.Topic }) {
			continue // a topic no longer read, whose position is kept
		}
		if _, found := slices.BinarySearchFunc(marks, p, func(m Mark, p Partition) int { return comparePartitions(m.partition(), p) }); !found {
			return nil, "", fmt.Errorf("stream: partition %d of topic %s is gone: was the topic created again? resume with another topic, or start a new training", p.Number, p.Topic)
		}
	}
	for _, m := range marks {
		i, known := slices.BinarySearchFunc(t.at, m.partition(), comparePartitions)
		if !known {
			t.at = slices.Insert(t.at, i, Partition{m.Topic, m.Number, max(m.Begin, m.Low)})
		}
		p := &t.at[i]
		switch {
		case m.Low < 0 || m.High < m.Low:
			return nil, "", fmt.Errorf("stream: partition %d of topic %s: the broker reports offsets from %d to %d", m.Number, m.Topic, m.Low, m.High)
		case p.Next < m.Low:
			return nil, "", fmt.Errorf("stream: partition %d of topic %s: the records %d to %d were deleted before they were read: keep them longer (retention.ms), or begin a new training",
				m.Number, m.Topic, p.Next, m.Low-1)
		case p.Next > m.High:
			return nil, "", fmt.Errorf("stream: partition %d of topic %s ends at offset %d, and %d were read: was the topic created again, or were records lost?", m.Number, m.Topic, m.High, p.Next)
		}
		hi := m.High
		if t.rules.Most > 0 {
			hi = min(hi, p.Next+int64(t.rules.Most))
		}
		if hi > p.Next {
			span = append(span, Range{m.Topic, m.Number, p.Next, hi})
			p.Next = hi
		}
	}
	if len(span) == 0 && t.rules.Idle > 0 && quiet >= t.rules.Idle {
		end = fmt.Sprintf("nothing new for %v", t.rules.Idle)
	}
	return span, end, nil
}

func (m Mark) partition() Partition { return Partition{Topic: m.Topic, Number: m.Number} }
