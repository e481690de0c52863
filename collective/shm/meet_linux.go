package shm

import (
	"fmt"

	"github.com/wdlrun/wdlrun/collective"
)

// enter begins a call's use of shared memory on its channel.
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

// Meet implements [collective.Sharer].
func (t *Transport) Meet(tag collective.Tag, note collective.Note) error {
	s, err := t.enter(tag)
	if err != nil {
		return err
	}
	s.serial++
	serial := s.serial
	mine := &s.mine.posts[serial&1]
	mine.tag, mine.note = words(tag), note
	mine.serial.Store(serial)
	if s.mine.sleepers.Load() != 0 {
		wakeAll(low(&mine.serial))
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

// Met implements [collective.Sharer].
func (t *Transport) Met(channel, rank int) collective.Note {
	s := &t.slots[channel]
	return s.desks[rank].posts[s.serial&1].note
}
