package serve

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
)

const reloadMethod = "/tensorflow.serving.ModelService/HandleReloadConfigRequest"

// swapSettle is how long after a switch requests still count as requests during a switch: the old
// version is being closed and the caches are cold.
const swapSettle = time.Second

// swapper makes a server switch between the versions of a folder during the measurement. A
// nil swapper does nothing.
type swapper struct {
	o        *Options
	conn     *grpc.ClientConn
	versions []int64

	mu             sync.Mutex
	busy           bool
	ended          time.Time // end of the last switch
	done           []Switch
	calm, switched *hdrhistogram.Histogram
}

// newSwapper makes the server serve the first version.
func newSwapper(o *Options, conn *grpc.ClientConn) (*swapper, error) {
	s := &swapper{o: o, conn: conn, calm: newHistogram(), switched: newHistogram()}
	entries, err := os.ReadDir(o.Base)
	for _, e := range entries {
		if n, err := strconv.ParseInt(e.Name(), 10, 64); err == nil && n >= 0 {
			s.versions = append(s.versions, n)
		}
	}
	slices.Sort(s.versions)
	if err == nil && len(s.versions) < 2 {
		err = fmt.Errorf("%s has %d versions, switches need at least 2", o.Base, len(s.versions))
	}
	if err == nil {
		s.o.Base, err = filepath.Abs(o.Base) // the server may have another working directory
	}
	if err != nil {
		return nil, fmt.Errorf("bench serve: swap: %w", err)
	}
	return s, s.to(context.Background(), s.versions[0])
}

// start switches every Swap, for the first time after half of it, until stop is called.
func (s *swapper) start(ctx context.Context) (stop func() error) {
	if s == nil {
		return func() error { return nil }
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}
}

func (s *swapper) run(ctx context.Context) error {
	wait := time.NewTimer(s.o.Swap / 2)
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-wait.C:
		}
		wait.Reset(s.o.Swap)
		if err := s.next(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
}

// next switches to the next version of the folder, after the last to the first.
func (s *swapper) next(ctx context.Context) error {
	n := s.versions[(len(s.done)+1)%len(s.versions)]
	s.mu.Lock()
	s.busy = true
	s.mu.Unlock()
	start := time.Now()
	err := s.to(ctx, n)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy, s.ended = false, time.Now()
	s.done = append(s.done, Switch{n, s.ended.Sub(start).Seconds()})
	return err
}

// to makes the server serve one version and checks that it does.
func (s *swapper) to(ctx context.Context, n int64) error {
	const limit = 10 * time.Minute
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	request, answer := reloadRequest(s.o.Model, s.o.Base, n), []byte(nil)
	err := s.conn.Invoke(ctx, reloadMethod, &request, &answer)
	if err == nil {
		// A second model_spec is merged with the first.
		request = appendBytes(slices.Clone(s.o.Requests[0]), 1, appendBytes(nil, 2, number(nil, 1, uint64(n))))
		err = s.conn.Invoke(ctx, predictMethod, &request, &answer)
	}
	if err != nil {
		return fmt.Errorf("bench serve: swap: the server does not switch to version %d of %s: %w", n, s.o.Base, err)
	}
	return nil
}

// answered records the latency of a request that is answered now.
func (s *swapper) answered(due time.Time, latency time.Duration) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy || due.Before(s.ended.Add(swapSettle)) {
		count(s.switched, latency)
	} else {
		count(s.calm, latency)
	}
}

func (s *swapper) result() *Swap {
	if s == nil {
		return nil
	}
	return &Swap{s.done, quantilesOf(s.calm), quantilesOf(s.switched)}
}

// reloadRequest returns a ReloadConfigRequest for one version of one model.
func reloadRequest(model, base string, n int64) []byte {
	m := appendBytes(nil, 1, []byte(model))                                 // name
	m = appendBytes(m, 2, []byte(base))                                     // base_path
	m = appendBytes(m, 4, []byte("tensorflow"))                             // model_platform
	specific := appendBytes(nil, 102, number(nil, 1, uint64(n)))            // specific
	m = appendBytes(m, 7, specific)                                         // model_version_policy
	return appendBytes(nil, 1, appendBytes(nil, 1, appendBytes(nil, 1, m))) // config, model_config_list, config
}

func number(dst []byte, field protowire.Number, x uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, field, protowire.VarintType), x)
}
