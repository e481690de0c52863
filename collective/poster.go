package collective

import "github.com/wdlrun/wdlrun/internal/raw"

// Poster is a Transport that makes several exchanges of one call at once.
type Poster interface {
	// ExchangeEach is Exchange for every post, the k-th with k added to the step of
	// tag, all at once: each message leaves as soon as it can, and those of the others
	// are taken in whatever order they come. No two posts send to one rank, nor receive
	// from one. To the others it is as if the exchanges were made one after the other;
	// they may do so. posts are the transport's until it returns.
	ExchangeEach(tag Tag, posts []Post) error
}

// Post is one exchange of several: Send goes to rank To, Recv is filled by rank From.
// Either is absent if its rank is negative.
type Post struct {
	To   int
	Send []byte
	From int
	Recv []byte
}

// posterOf returns t as a Poster, or nil where it is none or stands before one that
// is none.
func posterOf(t Transport) Poster {
	switch w := t.(type) {
	case *subset:
		if posterOf(w.t) == nil {
			return nil
		}
	case *outside:
		if posterOf(w.Transport) == nil {
			return nil
		}
	}
	p, _ := t.(Poster)
	return p
}

// postBytes is up to where messages are posted all at once. Larger ones go in turns,
// so that no rank is sent to by all, and what moves stays in a core's cache.
const postBytes = 64 << 10

// runPairwise is run for the steps of allToAllPairwise, see post.
func runPairwise[T Number](c *Comm, tag *Tag, send, recv []T) error {
	own := c.steps[0]
	copy(recv[own.recv.lo:own.recv.hi], send[own.send.lo:own.send.hi])
	tag.Step++
	c.posts = c.posts[:0]
	for _, x := range c.steps[1:] {
		c.posts = append(c.posts, Post{
			To: x.to, Send: raw.Bytes(send[x.send.lo:x.send.hi]),
			From: x.from, Recv: raw.Bytes(recv[x.recv.lo:x.recv.hi]),
		})
	}
	return c.post(tag)
}

// post makes the exchanges of c.posts, each of which is a step. Where messages are small
// it posts all of them, and so waits for all ranks at once instead of one after the
// other. Each rank decides that for itself: what goes over a link is the same.
func (c *endpoint) post(tag *Tag) error {
	defer clear(c.posts) // the caller's slices are its own again
	if c.poster != nil && len(c.posts) > 1 && allSmall(c.posts) {
		if err := c.poster.ExchangeEach(*tag, c.posts); err != nil {
			return c.fail(*tag, err)
		}
		tag.Step += uint32(len(c.posts))
		return nil
	}
	for _, p := range c.posts {
		if err := c.t.Exchange(*tag, p.To, p.Send, p.From, p.Recv); err != nil {
			return c.fail(*tag, err)
		}
		tag.Step++
	}
	return nil
}

func allSmall(posts []Post) bool {
	for _, p := range posts {
		if max(len(p.Send), len(p.Recv)) > postBytes {
			return false
		}
	}
	return true
}
