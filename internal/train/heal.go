package train

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/wdlrun/wdlrun/checkpoint"
	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/model/copies"
	"github.com/wdlrun/wdlrun/internal/model/plan"
	"github.com/wdlrun/wdlrun/internal/model/step"
	"github.com/wdlrun/wdlrun/internal/train/input"
	"github.com/wdlrun/wdlrun/internal/train/report"
	"github.com/wdlrun/wdlrun/internal/train/save"
	"github.com/wdlrun/wdlrun/internal/train/volumes"
	"github.com/wdlrun/wdlrun/trace"
)

// Memory holds the state that a process keeps of a job whose group was lost. A job on the
// next generation of the group resumes from it (Job.UseMemory).
type Memory struct {
	was  *healing
	left *step.Left // state after the step of the cursor; nil: the job had not begun to train
}

// maxKnowledge bounds the size of a knowledge as JSON.
const maxKnowledge = 1 << 30

// healing resumes a job with replicas on a new group, from the memory of the remaining ranks.
type healing struct {
	*run
	saves     *saves
	ring      copies.Ring        // which rank holds which copy
	healed    int                // number of times that the job resumed from memory
	uncounted []report.Uncounted // ranks that were lost, and the steps until which they were counted
	memory    *Memory            // of the job in the previous generation; nil: none
}

// knowledge is the state of the job that one remaining rank sends to all, for the new ranks.
type knowledge struct {
	Brief     brief
	Encoder   []byte
	Counts    [][]byte // encoded counts of the datasets
	Plan      *plan.Plan
	Ring      copies.Ring
	Cursor    cursor
	LastSaved int64
	Elapsed   time.Duration // since the job began
	Healed    int           // resumptions from memory before this one
	Uncounted []report.Uncounted
}

// gather collects what the ranks hold in memory and decides how the group resumes. If the
// recovery has no leader, training starts as usual.
func (h *healing) gather() (r copies.Recovery, err error) {
	r.Leader = -1
	if h.opt.Replicas < 2 {
		return r, nil
	}
	const words = 5
	m := h.memory
	all := make([]int64, words*h.Comm.Size())
	if m != nil && m.left != nil {
		copy(all[words*h.Comm.Rank():], []int64{1, m.was.cursor.Step, m.was.cursor.Epoch, m.left.Ready(), int64(m.was.ring.Ward(h.Comm.Rank()))})
	}
	h.Rec.Enter(trace.Wait)
	if err := collective.AllGather(h.Comm, all); err != nil {
		return r, err
	}
	held := make([]copies.Held, h.Comm.Size())
	for i := range held {
		x := all[words*i:]
		held[i] = copies.Held{Whole: x[0] == 1, Step: x[1], Epoch: x[2], Ready: x[3], Ward: int(x[4])}
	}
	if r, err = copies.Recover(held); err != nil || r.Leader >= 0 {
		return r, err
	}
	if !r.Begins {
		h.Warn(lostReason(r))
	}
	if m != nil {
		h.opt.Again = cmp.Or(m.was.runDir, h.opt.Again)
		err = m.drop()
	}
	return r, err
}

// lostReason returns the reason why a group cannot resume from memory, with the ranks whose
// state is lost.
func lostReason(r copies.Recovery) string {
	var lost []string
	for rank, empty := range r.Empty {
		if empty {
			lost = append(lost, fmt.Sprint(rank))
		}
	}
	lostRanks := "rank"
	if len(lost) > 1 {
		lostRanks = "ranks"
	}
	return fmt.Sprintf("both copies of some shards are lost with %s %s: all ranks resume from the last checkpoint", lostRanks, strings.Join(lost, ", "))
}

// drop frees the memory that is no longer needed.
func (m *Memory) drop() (err error) {
	if m.left != nil {
		err = m.left.Close()
		m.left = nil
	}
	m.was.turn.Close()
	m.was.turn = nil
	return err
}

// knowledge returns the knowledge of this rank.
func (m *Memory) knowledge() knowledge {
	h := m.was
	been, err := readInjected(h.runDir)
	if err != nil {
		been = injected{Ranks: h.Comm.Size()}
	}
	return knowledge{
		Brief:   brief{Config: string(h.config.YAML()), RunDir: h.runDir, Tolerance: h.opt.Tolerance, Chaos: h.opt.Chaos.String(), Injected: been},
		Encoder: h.in.Encoded, Plan: h.planned, Ring: h.ring, Counts: h.in.Counts, Cursor: h.cursor, LastSaved: h.saves.saver.Last(), Elapsed: time.Since(h.began), Healed: h.healed, Uncounted: h.uncounted,
	}
}

// heal resumes after the last step of the lost group, from the memory of the remaining ranks.
func (h *healing) heal(r copies.Recovery) error {
	m, leader := h.memory, r.Leader
	var sent []byte
	if h.Comm.Rank() == leader {
		var err error
		if sent, err = json.Marshal(m.knowledge()); err != nil {
			return err
		}
	}
	sent, err := collective.BroadcastBytes(h.Comm, sent, leader, maxKnowledge)
	if err != nil {
		return err
	}
	var b knowledge
	if err := json.Unmarshal(sent, &b); err != nil {
		return fmt.Errorf("heal: rank %d: %w", leader, err)
	}
	h.opt.Tolerance, h.runDir, h.ring = b.Brief.Tolerance, b.Brief.RunDir, b.Ring
	if m != nil && m.left != nil {
		h.restore(m)
	} else {
		err = h.adoptState(b)
	}
	if err != nil {
		return fmt.Errorf("heal: %w", err)
	}
	if err := h.renewTurn(); err != nil {
		return fmt.Errorf("heal: %w", err)
	}
	if err := h.splitAgain(); err != nil {
		return fmt.Errorf("heal: %w", err)
	}
	h.began, h.healed = time.Now().Add(-b.Elapsed), b.Healed+1
	h.faults.start = h.began
	been, err := (hostVolumes{h.run}).mergeFaults(b.Brief.Injected, b.Brief.Chaos != "")
	if err != nil {
		return fmt.Errorf("heal: %w", err)
	}
	h.faults.skip(been)
	h.cursor, h.saves.at = b.Cursor, time.Now()
	h.uncounted = b.Uncounted
	for rank, empty := range r.Empty {
		if empty {
			h.uncounted = append(h.uncounted, report.Uncounted{Rank: rank, Step: h.cursor.Step})
		}
	}
	if err := h.rebuild(m, r, b.LastSaved); err != nil {
		return fmt.Errorf("heal: step %d: %w", h.cursor.Step, err)
	}
	h.Say(fmt.Sprintf("training resumes after step %d", h.cursor.Step))
	return h.resave()
}

// renewTurn takes the run directory for the new group, so that a lost rank that continues later
// can no longer write there.
func (h *healing) renewTurn() error {
	h.turnName = ""
	fault, err := save.First(h.Comm, h.Rec, h.takeTurn)
	if err == nil && fault != "" {
		err = errors.New(fault)
	}
	if err != nil {
		return err
	}
	var name []byte
	if h.Comm.Rank() == 0 {
		name = []byte(h.turn.Name)
	}
	name, err = collective.BroadcastBytes(h.Comm, name, 0, maxBrief)
	h.turnName = string(name)
	return err
}

// splitAgain finds the volumes of the ranks of the new group.
func (h *healing) splitAgain() error {
	if err := h.openVolumes(); err != nil || h.volumes == nil {
		return err
	}
	var token string
	fault, err := save.First(h.Comm, h.Rec, func() (err error) {
		token, err = volumes.Token(h.runDir)
		return err
	})
	if err == nil && fault != "" {
		err = errors.New(fault)
	}
	if err != nil {
		return err
	}
	b, err := collective.BroadcastBytes(h.Comm, []byte(token), 0, maxBrief)
	if err != nil {
		return err
	}
	return h.findVolumes(string(b))
}

// restore takes over the state of this rank in the previous group.
func (h *healing) restore(m *Memory) {
	was := m.was
	h.config, h.written, h.planned = was.config, was.written, was.planned
	h.in = was.in.Over(h.inputSetup())
	h.report.Begin(was.report.Since())
	h.faults, h.turn = was.faults, was.turn
	h.wants.save.Store(was.wants.save.Load())
	h.wants.stop.Store(was.wants.stop.Load())
}

// adoptState takes over the state that another rank sends.
func (h *healing) adoptState(b knowledge) (err error) {
	if h.config, err = config.Parse("configuration of the job", []byte(b.Brief.Config)); err != nil {
		return err
	}
	h.config.Fill()
	h.written = h.config
	if err := h.faults.draw(b.Brief.Chaos, b.Brief.Injected, h.config.Train.Seed, h.Comm.Rank(), h.runDir, &h.opt); err != nil {
		return err
	}
	h.cursor.ByLabel = b.Cursor.ByLabel
	if h.in, err = input.Open(h.inputSetup()); err != nil {
		return err
	}
	h.planned = b.Plan
	h.report.Begin(report.Since{Samples: b.Cursor.Samples, Step: b.Cursor.Step})
	return h.in.Restore(b.Counts, b.Encoder)
}

// rebuild makes the trainer of the new group and sets it to the state of the cursor. Ranks
// that had not taken the last step, although it was ready, take it now. saved is the step of
// the last good checkpoint.
func (h *healing) rebuild(m *Memory, r copies.Recovery, saved int64) (err error) {
	var left *step.Left
	var before *save.Saver
	if m != nil && m.left != nil {
		left, before = m.left, m.was.saves.saver
	}
	if h.trainer, err = h.newTrainer(left); err != nil {
		return err
	}
	h.saves.open()
	h.saves.saver.Heal(before, saved, h.report.Spent())
	h.Rec.Enter(trace.Wait)
	if err := h.trainer.Inherit(left, r.Leader); err != nil {
		return err
	}
	if left != nil {
		h.trains, h.memory = true, nil // if a rank is lost from here on, the state of this job is used
	}
	if err := h.trainer.Heal(left, r, h.ring, h.cursor.Step); err != nil {
		return err
	}
	h.trains = true
	return nil
}

// resave restarts a checkpoint that was under way when ranks were lost: their parts of it are
// gone. A checkpoint of an epoch's end, or of the best epoch so far, is written again; others
// are written when they are next due.
func (h *healing) resave() error {
	c, root := &h.cursor, filepath.Join(h.runDir, checkpoint.Folder)
	missing := make([]int64, 1)
	if h.Comm.Rank() == 0 {
		if _, err := checkpoint.Clean(h.turn.Root); err != nil {
			h.opt.Warn(fmt.Sprintf("an incomplete checkpoint could not be removed: %v", err))
		}
		if _, err := checkpoint.Open(checkpoint.Dir(root, c.Step)); err != nil {
			missing[0] = 1
		}
	}
	h.Rec.Enter(trace.Wait)
	if err := collective.AllReduce(h.Comm, missing, collective.Sum); err != nil {
		return err
	}
	switch {
	case missing[0] == 0:
		h.saves.saver.Resume(c.Step, 0)
	case c.Consumed == 0 && c.Step > 0, c.Best > 0 && c.Best == c.Step: // end of an epoch, or the best so far
		if err := h.saves.save(true, best{}); err != nil {
			return err
		}
	}
	return h.saves.keepBest()
}
