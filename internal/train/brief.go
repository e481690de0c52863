package train

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/model/copies"
	"github.com/wdlrun/wdlrun/internal/model/slots"
	"github.com/wdlrun/wdlrun/trace"
)

// orders is the content of rank 0's brief, except the configuration and the run directory.
type orders struct {
	from    *checkpoint.Checkpoint // to resume from; nil: none
	ring    copies.Ring            // which rank holds which copy; nil without replicas
	script  []slots.Record         // steps of the run that is repeated; nil: none
	changed []string               // settings that affect steps and differ from the checkpoint's; on rank 0

	again    bool     // the job restarts after a failure
	settings []string // all settings that differ from the checkpoint's, in words; on rank 0
}

// briefing makes the brief on rank 0, sends it to all ranks, and opens the checkpoint that it
// names. adapt changes the configuration for an evaluation; nil: a training.
func (r *run) briefing(ctx context.Context, adapt func(*config.Config) error) (o orders, err error) {
	r.Rec.Enter(trace.Wait)
	if err := r.openVolumes(); err != nil {
		return o, err
	}
	var b []byte
	if r.Comm.Rank() == 0 {
		r.Rec.Enter(trace.Brief)
		d := decision{opt: &r.opt, adapt: adapt, size: r.Comm.Size(), run: r}
		brief, err := d.decide(ctx)
		r.turn, o.changed, o.settings, o.from = d.turn, d.changed, d.settings, d.from
		if err == nil {
			err = (hostVolumes{r}).request(askNothing)
		}
		if err != nil {
			return o, err
		}
		if brief.RunDir != "" { // announced before the broadcast: if a rank is lost during it, the next generation uses this directory
			r.runDir = brief.RunDir
			r.announce()
		}
		if b, err = json.Marshal(brief); err != nil {
			return o, err
		}
	} else if o.from, err = (hostVolumes{r}).serveRequests(ctx); err != nil {
		return o, err
	}
	r.Rec.Enter(trace.Wait)
	if b, err = collective.BroadcastBytes(r.Comm, b, 0, maxBrief); err != nil {
		return o, err
	}
	var brief brief
	r.Rec.Enter(trace.Brief)
	if err := json.Unmarshal(b, &brief); err != nil {
		return o, fmt.Errorf("brief of rank 0: %w", err)
	}
	r.turnName = brief.Turn
	r.runDir, r.opt.Tolerance, o.ring, o.again = brief.RunDir, brief.Tolerance, brief.Ring, brief.Again
	parse := config.Parse
	if r.use.Unlabelled {
		parse = config.ParseUnlabelled
	}
	if r.config, err = parse("configuration of rank 0", []byte(brief.Config)); err != nil {
		return o, err
	}
	r.config.Fill()
	r.written = r.config
	if err := r.findVolumes(brief.Here); err != nil {
		return o, err
	}
	been, err := (hostVolumes{r}).mergeFaults(brief.Injected, brief.Chaos != "")
	if err != nil {
		return o, err
	}
	if err := r.faults.draw(brief.Chaos, been, r.config.Train.Seed, r.Comm.Rank(), r.runDir, &r.opt); err != nil {
		return o, permanent(err)
	}
	if o.script, err = script(brief.Replay); err != nil {
		return o, permanent(err)
	}
	err = openNamed(r, &o, &brief)
	return o, err
}

// openNamed opens the checkpoints that a brief names.
func openNamed(r *run, o *orders, b *brief) (err error) {
	if b.From == "" {
		o.from = nil
		r.source, err = openSource(b.Source)
		return err
	}
	if o.from == nil || o.from.Dir() != b.From {
		o.from, err = checkpoint.Open(b.From)
	}
	if err == nil {
		o.from.Watch(r.shown.Advance)
	}
	return err
}
