package shm

import (
	"fmt"

	"github.com/wdlrun/wdlrun/collective"
)

// enter opens a call's use of shared memory on its channel.
func (t *Transport) enter(tag collective.Tag) (*slot, error) {
	if int(tag.Channel) >= t.channels {
		panic(fmt.Sprintf("shm: channel %d of %d", tag.Channel, t.channels))
	}
	s := &t.slots[tag.Channel]
	if !s.in.Load() {
		s.in.Store(true)
	}
	if t.over.Load() { // after in was set: Close waits for it
		err := t.standing()
		s.in.Store(false)
		return s, err
	}
	return s, nil
}

// Meet is as collective.Sharer says.
func (t *Transport) Meet(tag collective.Tag, note collective.Note) error {
	s, err := t.enter(tag)
	if err != nil {
		return err
	}
	s.serial++
	serial := s.serial
	mine := &s.mine.posts[serial&1]
	mine.post(serial, tag, note)
	if s.mine.sleepers.Load() != 0 {
		rouse(low(&mine.serial))
	}
	for i := 1; i < t.size; i++ {
		r := t.rank + i
		if r >= t.size {
			r -= t.size
		}
		theirs := s.desks[r]
		post := &theirs.posts[serial&1]
		if post.serial.Load() < serial {
			if err := t.await(s, t.peers[r], theirs, &post.serial, serial); err != nil {
				return err
			}
		}
		if post.tag != mine.tag {
			return t.end(&collective.MismatchError{
				Peer: collective.Side{Rank: r, Tag: tagOf(post.tag), Bytes: -1},
				Own:  collective.Side{Rank: t.rank, Tag: tag, Bytes: -1},
			})
		}
	}
	return nil
}

// post announces a meeting. Its serial is 0 while the tag changes, so that a peer which
// looks round meanwhile (desk.doing) reads no mixture of two tags.
func (p *post) post(serial uint64, tag collective.Tag, note collective.Note) {
	p.serial.Swap(0)
	p.tag, p.note = words(tag), note
	p.serial.Store(serial)
}

// Met is as collective.Sharer says.
func (t *Transport) Met(channel, rank int) collective.Note {
	s := &t.slots[channel]
	return s.desks[rank].posts[s.serial&1].note
}

// lookRound compares the call of tag, in which this rank sleeps, with those the
// peers are in, and ends the group if one of them makes another call of the same
// number, or if ranks in different calls wait for each other: they never meet.
func (t *Transport) lookRound(s *slot, tag [tagWords]uint64) error {
	if err := t.standing(); err != nil {
		return err
	}
	own, known := s.mine.doing()
	for r, d := range s.desks {
		theirs, ok := d.doing()
		if known && ok && r != t.rank && theirs.Seq == own.Seq && theirs.Group == own.Group && !theirs.SameCall(own) {
			return t.end(&collective.MismatchError{
				Peer: collective.Side{Rank: r, Tag: theirs, Bytes: -1},
				Own:  collective.Side{Rank: t.rank, Tag: own, Bytes: -1},
			})
		}
	}
	if differ := t.circle(s, int(tagOf(tag).Channel)); differ != nil {
		return t.end(differ)
	}
	return nil
}

// doing returns the call that the rank of d is in, or was in last.
func (d *desk) doing() (collective.Tag, bool) {
	tag, ok := d.getCurrent()
	for i := range d.posts {
		p := &d.posts[i]
		serial := p.serial.Load()
		if serial == 0 {
			continue
		}
		if met := tagOf(p.tag); p.serial.Load() == serial && (!ok || met.Seq > tag.Seq) {
			tag, ok = met, true
		}
	}
	return tag, ok
}
