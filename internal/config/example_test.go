package config_test

import (
	"fmt"

	"github.com/wdlrun/wdlrun/internal/config"
)

// A configuration is parsed, changed by flags, then filled.
func Example() {
	c, err := config.Parse("ctr.yaml", []byte(`
data: {train: [clicks.csv], header: true}
label: {field: click}
features:
  - {field: user, encode: hash}
  - {field: ad, encode: hash}
crosses:
  - {of: [user, ad]}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := config.Set(c, "train.batch", "512"); err != nil {
		fmt.Println(err)
		return
	}
	c.Fill()
	fmt.Println(c.Train.Global(4), "samples a step on 4 ranks")
	for _, t := range c.TablesInUse() {
		fmt.Println(t.Name, t.Dim, t.Wide.Kind)
	}
	// Output:
	// 2048 samples a step on 4 ranks
	// user 8 ftrl
	// ad 8 ftrl
	// user_x_ad 0 ftrl
}

// All faults are reported at once, each with its place and advice.
func ExampleParse_faults() {
	_, err := config.Parse("ctr.yaml", []byte(`data:
  train: [clicks.csv]
  header: yes
label: {field: click}
features:
  - {field: user, encode: hsh}
train:
  epochs: "3"
`))
	fmt.Println(err)
	// Output:
	// config: 3 faults:
	//   ctr.yaml:3:11: data.header: is the string "yes"; it must be true or false
	//   ctr.yaml:6:27: features[0].encode: "hsh" is unknown; did you mean hash? (valid: vocabulary, hash, id, quantile, boundaries, hour, weekday, month, standardise, log, raw, vector, age, rate)
	//   ctr.yaml:8:11: train.epochs: is the string "3"; it must be an integer
}

// An ablation without the wide part, as in a sweep.
func ExampleSet() {
	c := config.Default()
	err := config.Set(c, "model.wide", "false")
	fmt.Println(len(c.Crosses), err)
	fmt.Println(config.Set(c, "train.epoch", "3"))
	// Output:
	// 0 <nil>
	// config: train.epoch: unknown key; did you mean train.epochs? (valid: epochs, batch, global_batch, seed, shuffle, slots, threads, precision, device, mode, backup, optimizer, scaling, l2, class_weight, clip_norm, schedule, eval_every, eval_steps, early_stop, refit, gate, from, retain, checkpoint, export)
}
