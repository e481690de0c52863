package join

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
)

// add adds a record of one side.
func (j *joiner) add(side, source int, e *event) error {
	var outcome Outcome
	j.adding = true
	ref := j.log.next()
	if side == impressions {
		j.Counts.Impressions++
		outcome = j.machine.Impression(source, e.key, e.time, ref)
	} else {
		j.Counts.Feedback++
		outcome = j.machine.Feedback(source, e.key, e.time, ref)
	}
	j.adding = false
	err := error(nil)
	switch {
	case outcome == Opened:
		err = j.log.impression(e.key, e.time, e.object)
	case outcome == Matched || outcome == Held:
		err = j.log.feedback(e.key, e.time, e.value, e.object)
	case outcome == Duplicate:
		j.Duplicates++
	case outcome == Repeated: // the machine counts it
	case side == impressions:
		j.LateImpressions++
		err = j.reject(side, late, "", e.object)
	default:
		j.LateFeedback++
		err = j.reject(side, late, "", e.object)
	}
	for _, s := range j.pending {
		err = cmp.Or(err, j.write(s))
	}
	j.pending = j.pending[:0]
	return err
}

// Sample is called by the machine.
func (j *joiner) Sample(s Sample) {
	if j.adding {
		j.pending = append(j.pending, s)
	} else if j.fault == nil {
		j.fault = j.write(s)
	}
}

// write writes a sample.
func (j *joiner) write(s Sample) error {
	j.value = append(j.value[:0], '0')
	if s.Feedback != 0 {
		value, _, err := j.log.read(s.Feedback)
		if err != nil {
			return err
		}
		j.value = append(j.value[:0], value...)
		j.Positives++
	}
	_, object, err := j.log.read(s.Impression)
	if err != nil {
		return err
	}
	out, err := j.samples.writer(j.Number + 1)
	if err != nil {
		return err
	}
	j.line = appendSample(j.line[:0], object, j.label, j.value)
	j.Samples, j.Newest, j.dirty = j.Samples+1, max(j.Newest, s.Time), true
	_, err = out.Write(j.line)
	return err
}

// Unmatched is called by the machine.
func (j *joiner) Unmatched(ref Ref) {
	if j.fault != nil {
		return
	}
	_, object, err := j.log.read(ref)
	if err == nil {
		j.Counts.Unmatched++
		err = j.reject(feedbacks, noImpression, "", bytes.Clone(object))
	}
	j.fault = err
}

// noImpression is the reason of feedback about no open impression. The keys of closed ones are not kept.
const noImpression = "no open impression: none with this key, or its window had ended"

// late is the reason of a record before the watermark.
const late = "late"

// reject writes a record that is not used to the folder of rejected ones.
func (j *joiner) reject(side int, reason, place string, object []byte) error {
	if j.Late != "" && (reason == late && side == feedbacks || reason == noImpression) {
		out, err := j.late.writer(j.Number + 1)
		if err != nil {
			return err
		}
		j.dirty = true
		_, err = out.Write(append(slices.Clip(object), '\n'))
		return err
	}
	out, err := j.rejected.writer(j.Number + 1)
	if err != nil {
		return err
	}
	b, err := json.Marshal(struct {
		Side   string          `json:"side"`
		Reason string          `json:"reason"`
		Place  string          `json:"place,omitempty"`
		Record json.RawMessage `json:"record,omitempty"`
	}{sideNames[side], reason, place, nil})
	if err != nil {
		return err
	}
	if len(object) > 0 { // not by Marshal, which rejects NaN
		b = append(append(append(b[:len(b)-1], `,"record":`...), object...), '}')
	}
	j.dirty = true
	_, err = out.Write(append(b, '\n'))
	return err
}
