package config

import (
	"reflect"
	"strconv"
	"strings"
)

// Diff lists the settings that differ between two filled Configs, each with both values as in
// the file:
//
//	train.optimizer.deep.kind: adagrad → sgd
//
// Features, crosses and tables are matched by name. Their indexes are from now, or from was
// for entries that only was has. The list is empty if both describe the same training.
func Diff(was, now *Config) (lines []string) {
	for _, x := range changes(was, now) {
		lines = append(lines, x.path+": "+x.was+" → "+x.now)
	}
	return lines
}

// difference is a setting that differs between two Configs, with both values as in the file.
type difference struct{ path, was, now string }

func changes(was, now *Config) []difference {
	d := differ{emitter: emitter{schema: newGrammar()}}
	d.value("", reflect.ValueOf(was).Elem(), reflect.ValueOf(now).Elem())
	return d.changes
}

type differ struct {
	emitter
	changes []difference
}

func (d *differ) add(path, was, now string) {
	d.changes = append(d.changes, difference{path, was, now})
}

// show formats a value; a missing one is "none".
func (d *differ) show(v reflect.Value) string {
	if (v.Kind() == reflect.Pointer || v.Kind() == reflect.Slice) && (v.IsNil() || v.Kind() == reflect.Slice && v.Len() == 0) {
		return "none"
	}
	return d.line(v)
}

func (d *differ) value(path string, was, now reflect.Value) {
	switch was.Kind() {
	case reflect.Struct:
		for i := range was.NumField() {
			d.value(join(path, was.Type().Field(i).Tag.Get("yaml")), was.Field(i), now.Field(i))
		}
		return
	case reflect.Pointer:
		if !was.IsNil() && !now.IsNil() {
			d.value(path, was.Elem(), now.Elem())
			return
		}
	case reflect.Slice:
		if was.Type().Elem().Kind() == reflect.Struct {
			d.entries(path, was, now)
			return
		}
	}
	if a, b := d.show(was), d.show(now); a != b {
		d.add(path, a, b)
	}
}

// entries compares two lists of named mappings.
func (d *differ) entries(path string, was, now reflect.Value) {
	at := func(i int) string { return path + "[" + strconv.Itoa(i) + "]" }
	left := byName(was)
	var before, after []string // entries of both, in order
	for i := range now.Len() {
		name := nameOf(now.Index(i))
		j, ok := left[name]
		if !ok {
			d.add(at(i), "none", d.show(now.Index(i)))
			continue
		}
		delete(left, name)
		after = append(after, name)
		d.value(at(i), was.Index(j), now.Index(i))
	}
	both := byName(now)
	for i := range was.Len() {
		name := nameOf(was.Index(i))
		if _, ok := both[name]; ok {
			before = append(before, name)
		} else if _, ok := left[name]; ok {
			d.add(at(i), d.show(was.Index(i)), "none")
		}
	}
	if a, b := strings.Join(before, ", "), strings.Join(after, ", "); a != b {
		d.add(path, "in the order "+a, b)
	}
}

func nameOf(entry reflect.Value) string {
	if name := entry.FieldByName("Name"); name.IsValid() {
		return name.String()
	}
	return entry.FieldByName("Field").String() // a label
}

// byName returns the indexes of the entries of a list by name.
func byName(list reflect.Value) map[string]int {
	index := map[string]int{}
	for i := range list.Len() {
		index[nameOf(list.Index(i))] = i
	}
	return index
}
