package online

import (
	"bytes"
	"cmp"
	"fmt"

	"github.com/goccy/go-yaml"

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
	c.Dir = cmp.Or(c.Dir, "online")
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
	for _, x := range section {
		if fmt.Sprint(x.Key) == name {
			return fmt.Sprint(x.Value)
		}
	}
	return otherwise
}
