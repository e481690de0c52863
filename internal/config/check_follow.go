package config

import "github.com/wdlrun/wdlrun/internal/data/kafka"

// follow checks the settings of data that grows, and the settings that cannot be combined
// with it.
func (k checker) follow() {
	f, t := k.c.Data.Follow, k.c.Train
	if !f.On {
		for _, x := range []struct {
			name  string
			given bool
		}{{"mark", f.Mark != ""}, {"idle", f.Idle != 0}, {"poll", f.Poll != 0}, {"files", f.Files != 0}, {"rows", f.Rows != 0}, {"steps", f.Steps != 0}, {"lost", f.Lost != ""}, {"bad", f.Bad.On()}} {
			if x.given && !k.knowsFault("data.follow.on") {
				k.bad("data.follow."+x.name, "has no effect without on: true")
			}
		}
		return
	}
	if f.Bad.Per != 0 && !f.Bad.On() {
		k.bad("data.follow.bad.per", "has no effect without most")
	}
	if f.Bad.To != "" && !f.Bad.On() {
		k.bad("data.follow.bad.to", "has no effect without most")
	}
	if kafka.IsTopic(f.Bad.To) {
		if _, err := kafka.ParseAddress(f.Bad.To); err != nil {
			k.bad("data.follow.bad.to", "%v", err)
		}
	}
	if f.Mark != "" {
		k.name("data.follow.mark", f.Mark)
	}
	for _, x := range []struct {
		path  string
		given bool
		why   string
	}{
		{"data.valid_fraction", k.c.Data.ValidFraction != 0, "a stream has no fixed size, so no share can be held out: name files in data.valid"},
		{"train.epochs", t.Epochs > 1, "a stream is read once: set it to 1, or omit it"},
		{"train.schedule.kind", t.Schedule.Kind == "linear" || t.Schedule.Kind == "cosine", "a stream has no end for the rate to fall to: use constant, step or plateau"},
	} {
		if x.given {
			k.later("data.follow.on", x.path, x.why)
		}
	}
}
