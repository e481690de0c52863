package serve

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wdlrun/wdlrun/internal/testkit/patient"
)

// upload is a gRPC request whose message a client sends in pieces, over a connection of its own.
type upload struct {
	in    *io.PipeWriter
	ended chan error // the status of the answer
}

// upload begins a request with a message of a size.
func (r *running) upload(t *testing.T, size int) upload {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &protocols}
	body, in := io.Pipe()
	req, err := http.NewRequest(http.MethodPost, "http://"+r.conn.Target()+"/tensorflow.serving.PredictionService/Predict", body)
	must(t, err)
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("Te", "trailers")
	u := upload{in, make(chan error, 1)}
	t.Cleanup(func() { in.CloseWithError(io.ErrClosedPipe); transport.CloseIdleConnections() })
	go func() {
		res, err := transport.RoundTrip(req)
		if err == nil {
			_, err = io.Copy(io.Discard, res.Body)
			if status := res.Header.Get("Grpc-Status") + res.Trailer.Get("Grpc-Status"); err == nil {
				err = fmt.Errorf("status %s", status)
			}
		}
		u.ended <- err
	}()
	in.Write(binary.BigEndian.AppendUint32([]byte{0}, uint32(size)))
	return u
}

// TestStalledMessagesShareABudget: clients that stall in the middle of a gRPC message hold no more than
// the budget and one read each. Small requests are answered, and those who hold the most make place.
func TestStalledMessagesShareABudget(t *testing.T) {
	const size, most = 1 << 20, 4 << 20
	r := start(t, Options{MaxBytes: size, BodyBytes: most}, nil, 640)
	part := make([]byte, size-1000)
	for range 30 {
		u := r.upload(t, size)
		go u.in.Write(part)
	}
	greatest := int64(0)
	holds := func(is func(held, closed int64) bool) func() bool {
		return func() bool {
			held, closed := r.inflow.held()
			greatest = max(greatest, held)
			return is(held, closed)
		}
	}
	r.until("the budget is used up", holds(func(held, _ int64) bool { return held > most }))
	if _, err := r.call(t.Context(), "PredictionService/Predict", predicting()); err != nil {
		t.Errorf("a small request: %v", err)
	}
	r.until("connections are closed", holds(func(_, closed int64) bool { return closed > 3 }))
	// Over the budget, each connection has at most one read more, and the largest its message.
	if limit := int64(most + 31*2*readBytes + size); greatest > limit {
		t.Errorf("%d bytes were held, the limit is %d", greatest, limit)
	}
}

// TestLargeMessagesTakeTurns: when the budget is used up by clients that go on sending, each of them is
// answered.
func TestLargeMessagesTakeTurns(t *testing.T) {
	patient.Try(t, time.Second, func(time.Duration) error { return takeTurns(t) }) // on a busy machine a client may pause for longer than stallWait
}

func takeTurns(t *testing.T) error {
	const size, most = 1 << 20, 2 << 20
	r := start(t, Options{MaxBytes: size, BodyBytes: most}, nil, 640)
	const clients = 12
	answers := make(chan error, clients)
	for range clients {
		go func() {
			u := r.upload(t, size)
			for left := size; left > 0; left -= 1 << 14 {
				if _, err := u.in.Write(make([]byte, 1<<14)); err != nil {
					break
				}
				time.Sleep(time.Millisecond)
			}
			u.in.Close()
			// 3 is INVALID_ARGUMENT: the message has arrived, and is none.
			if err := <-u.ended; err == nil || !strings.HasPrefix(err.Error(), "status 3") {
				answers <- fmt.Errorf("the answer is %v", err)
				return
			}
			answers <- nil
		}()
	}
	var err error
	for range clients {
		err = errors.Join(err, <-answers)
	}
	if held, closed := r.inflow.held(); err == nil && (held > 12*1024 || closed != 0) {
		err = fmt.Errorf("%d bytes are held, %d connections were closed", held, closed)
	}
	return err
}
