package collective

import "github.com/wdlrun/wdlrun/internal/kernel/raw"

// postBytes is the largest message that is posted with others at once. Larger messages go
// in turns, so that not all ranks send to the same one and the data stays in a core's
// cache.
const postBytes = 64 << 10

// runPairwise is run for the steps of allToAllPairwise; see post.
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

// post makes the exchanges of c.posts, one step each. If the messages are small it posts
// all of them and waits for all ranks at once. Each rank decides this by itself, because
// the messages on the links are the same.
func (c *endpoint) post(tag *Tag) error {
	defer clear(c.posts) // release the caller's slices
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
