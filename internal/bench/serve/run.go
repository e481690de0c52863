package serve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// maxWarmup is the time for which each server is loaded before the first turn, or a turn if that
// is shorter.
const maxWarmup = 2 * time.Second

// Validate returns an error if the options cannot be used.
func (o *Options) Validate() error {
	switch {
	case !(o.Rate > 0) || o.Rate > 1e6:
		return fmt.Errorf("bench serve: a rate of %v requests per second: it must be above 0 and at most 1000000", o.Rate)
	case !slices.Contains(Arrivals(), o.Arrivals):
		return fmt.Errorf("bench serve: arrivals %q: there are %v", o.Arrivals, Arrivals())
	case o.Time <= 0 || o.Turn <= 0 || o.Timeout <= 0:
		return fmt.Errorf("bench serve: times must be above 0")
	case o.Connections < 1 || o.Connections > 1024:
		return fmt.Errorf("bench serve: %d connections: 1 to 1024 are possible", o.Connections)
	case len(o.Requests) == 0:
		return fmt.Errorf("bench serve: there are no requests")
	case o.Swap < 0:
		return fmt.Errorf("bench serve: a switch every %v: it must be above 0", o.Swap)
	case o.MaxPending < 1:
		return fmt.Errorf("bench serve: at most %d requests without an answer: at least 1 is needed", o.MaxPending)
	}
	return nil
}

// Server is the result for one server.
type Server struct {
	Requests int64            `json:"requests"` // answered
	Failed   map[string]int64 `json:"failed,omitempty"`
	Latency  Quantiles        `json:"latency"`
	Lateness Quantiles        `json:"sender_lateness"`

	Swap *Swap `json:"swap,omitempty"`
}

// Result is the result of a measurement.
type Result struct {
	Target       string     `json:"target"`
	Rate         float64    `json:"rate"`
	Arrivals     string     `json:"arrivals"`
	Seconds      float64    `json:"seconds"` // per server
	Turns        int        `json:"turns"`
	RequestBytes int        `json:"request_bytes"`
	AnswerBytes  int        `json:"answer_bytes"`
	Measured     Server     `json:"measured"`
	Echo         *Server    `json:"echo,omitempty"`
	Above        *Quantiles `json:"above_echo,omitempty"` // difference of the quantiles
}

// Run measures a server.
func Run(ctx context.Context, o Options) (r Result, err error) {
	if err := o.Validate(); err != nil {
		return r, err
	}
	r = Result{Target: o.Target, Rate: o.Rate, Arrivals: o.Arrivals, Seconds: o.Time.Seconds(), RequestBytes: len(o.Requests[0])}
	target, err := o.open(o.Target)
	if err != nil {
		return r, err
	}
	defer hangUp(target.connections)
	warm, warmup := newTally(), max(min(o.Turn, o.Time, maxWarmup), time.Duration(2*float64(time.Second)/o.Rate))
	if err := target.run(ctx, warmup, 0, warm); err != nil {
		return r, err
	}
	if warm.latency.TotalCount() == 0 {
		return r, fmt.Errorf("bench serve: %s answers no request: %w", o.Target, warm.first)
	}
	r.AnswerBytes = warm.answer
	servers, tallies := []*sender{target}, []*tally{newTally()}
	if o.StartEcho != nil {
		address, stop, err := o.StartEcho(warm.answer)
		if err != nil {
			return r, err
		}
		defer stop()
		echo, err := o.open(address)
		if err != nil {
			return r, err
		}
		defer hangUp(echo.connections)
		if err := echo.run(ctx, warmup, 0, nil); err != nil {
			return r, err
		}
		servers, tallies = append(servers, echo), append(tallies, newTally())
	}
	if o.Swap > 0 {
		if tallies[0].swaps, err = newSwapper(&o, target.connections[0]); err != nil {
			return r, err
		}
	}
	for left := o.Time; left > 0; left -= o.Turn {
		r.Turns++
		for i, s := range servers { // both have the same arrivals
			stop := tallies[i].swaps.start(ctx)
			err := s.run(ctx, min(left, o.Turn), uint64(r.Turns), tallies[i])
			if err = errors.Join(err, stop()); err != nil {
				return r, err
			}
		}
	}
	r.Measured = tallies[0].server()
	if r.Measured.Requests == 0 {
		return r, fmt.Errorf("bench serve: %s answers no request: %w", o.Target, tallies[0].first)
	}
	if len(servers) > 1 {
		echo := tallies[1].server()
		r.Echo, r.Above = &echo, above(r.Measured.Latency, echo.Latency)
	}
	return r, nil
}

// open connects to a server.
func (o *Options) open(address string) (*sender, error) {
	connections, err := dial(address, o.Connections)
	return &sender{load: o.Load, connections: connections, requests: o.Requests}, err
}

func (t *tally) server() Server {
	return Server{t.latency.TotalCount(), t.failed, quantilesOf(t.latency), quantilesOf(t.lateness), t.swaps.result()}
}

func above(a, b Quantiles) *Quantiles {
	return &Quantiles{a.P50 - b.P50, a.P90 - b.P90, a.P99 - b.P99, a.P999 - b.P999, a.Max - b.Max}
}
