package online

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/wdlrun/wdlrun/cmd/wdlrun/internal/command"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/kafka"
	"github.com/wdlrun/wdlrun/internal/data/record"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// onlineConfig is the file of wdlrun online.
type onlineConfig struct {
	Dir    string        `yaml:"dir"`
	Web    string        `yaml:"web"`
	Join   yaml.MapSlice `yaml:"join"`
	Launch yaml.MapSlice `yaml:"launch"`
	Train  yaml.MapSlice `yaml:"train"`
	Serve  yaml.MapSlice `yaml:"serve"`
}

// readOnline reads the file.
func readOnline(path string) (c onlineConfig, err error) {
	const most = 1 << 20
	b, err := regular.ReadFile(path, most)
	if err != nil {
		return c, err
	}
	if err := yaml.NewDecoder(bytes.NewReader(b), yaml.Strict()).Decode(&c); err != nil {
		return c, fmt.Errorf("%s: %s", path, yaml.FormatError(err, false, false))
	}
	for name, flags := range map[string]yaml.MapSlice{"join": c.Join, "train": c.Train, "serve": c.Serve} {
		if len(flags) == 0 {
			return c, fmt.Errorf("%s: there is no section %s, with the flags of wdlrun %s", path, name, name)
		}
	}
	return c, nil
}

// flagsOf returns flags as arguments.
func flagsOf(section yaml.MapSlice) (args []string) {
	for _, x := range section {
		for _, v := range allOf(x.Value) {
			args = append(args, fmt.Sprintf("-%v=%v", x.Key, v))
		}
	}
	return args
}

// valuesOf returns all values of a flag.
func valuesOf(section yaml.MapSlice, name string) (values []string) {
	for _, x := range section {
		if fmt.Sprint(x.Key) == name {
			for _, v := range allOf(x.Value) {
				values = append(values, fmt.Sprint(v))
			}
		}
	}
	return values
}

// allOf returns the values of a flag that has one or a list.
func allOf(value any) []any {
	if all, many := value.([]any); many {
		return all
	}
	return []any{value}
}

// valueOf returns a flag, or the default.
func valueOf(section yaml.MapSlice, name, otherwise string) string {
	if all := valuesOf(section, name); len(all) > 0 {
		return all[len(all)-1]
	}
	return otherwise
}

// trainConfig returns the configuration of the training, with further settings.
func trainConfig(train yaml.MapSlice, more ...string) (*config.Config, error) {
	set := append(valuesOf(train, "set"), more...)
	c, err := command.Config(valueOf(train, "config", ""), set)
	if err == nil {
		_, err = config.SetAll(c, set)
	}
	return c, err
}

// apart returns a line for each part that does not read what the part before it writes: none of the inputs of
// the training is the folder of samples or a glob in it, or does not follow it; none of the models of the server, as
// NAME=DIR, is the folder of versions. Relative paths begin in base.
func apart(base string, c *config.Config, out string, models []string) (lines []string) {
	if !reads(base, c.Data.Train, out) {
		lines = append(lines, fmt.Sprintf("the join writes samples to %s, and the training reads %s: make data.train the folder of join.out", out, strings.Join(c.Data.Train, ", ")))
	}
	if !c.Data.Follow.On {
		lines = append(lines, "the training ends with the samples that are there when it starts: set data.follow: {on: true}")
	}
	dir := c.Train.Export.Dir
	if len(models) == 0 || modelOf(base, models, dir) != "" {
		return lines
	}
	var served []string
	for _, m := range models {
		_, of, _ := strings.Cut(m, "=")
		served = append(served, of)
	}
	folders := strings.Join(served, ", ")
	if dir == "" {
		return append(lines, fmt.Sprintf("the training publishes no versions, and the server reads %s: make it train.export.dir", folders))
	}
	return append(lines, fmt.Sprintf("the training publishes to %s, and the server reads %s: make train.export.dir the folder of serve.model", dir, folders))
}

// reads reports whether one of the inputs of a training is the folder or topic of samples.
func reads(base string, inputs []string, out string) bool {
	if a, err := kafka.ParseAddress(out); err == nil {
		return slices.ContainsFunc(inputs, func(in string) bool {
			b, err := kafka.ParseAddress(in)
			return err == nil && b.Topic == a.Topic
		})
	}
	out = absolute(base, out)
	return slices.ContainsFunc(inputs, func(in string) bool {
		in = absolute(base, record.LocalPath(in))
		return in == out || filepath.Dir(in) == out
	})
}

// modelOf returns the name of the model NAME=DIR with the given folder, "" if there is none.
func modelOf(base string, models []string, dir string) string {
	for _, m := range models {
		if name, of, _ := strings.Cut(m, "="); dir != "" && absolute(base, of) == absolute(base, dir) {
			return name
		}
	}
	return ""
}

func absolute(base, path string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(base, path)
	}
	if whole, err := filepath.Abs(path); err == nil {
		return whole
	}
	return path
}
