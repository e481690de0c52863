package arrays

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// safetensors reads the header of a file: the length of a JSON object, the object, the elements.
func safetensors(r io.ReaderAt, size int64) (all []*Array, err error) {
	var head [8]byte
	if err := readAt(r, head[:], 0); err != nil {
		return nil, err
	}
	n := le.Uint64(head[:])
	if n > maxHeader || int64(n) > size-8 {
		return nil, fmt.Errorf("a header of %d bytes in a file of %d: it is cut short, or no safetensors file", n, size)
	}
	text := make([]byte, n)
	if err := readAt(r, text, 8); err != nil {
		return nil, err
	}
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(text, &entries); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	if len(entries) > maxArrays {
		return nil, fmt.Errorf("%d arrays, at most %d are possible", len(entries), maxArrays)
	}
	offsets, err := savedOffsets(entries["__metadata__"])
	if err != nil {
		return nil, fmt.Errorf("__metadata__: %w", err)
	}
	delete(entries, "__metadata__")
	for name, raw := range entries {
		var e struct {
			Type    string   `json:"dtype"`
			Shape   []int    `json:"shape"`
			Offsets [2]int64 `json:"data_offsets"`
		}
		if err := json.Unmarshal(raw, &e); err != nil {
			return nil, fmt.Errorf("header: %q: %w", name, err)
		}
		k, known := kindNamed(e.Type)
		if !known {
			return nil, fmt.Errorf("array %q has elements of type %q, which is not supported", name, e.Type)
		}
		count, err := elements(e.Shape)
		first := 8 + int64(n)
		if err == nil && (e.Offsets[0] < 0 || e.Offsets[1] < e.Offsets[0] || e.Offsets[1] > size-first || e.Offsets[1]-e.Offsets[0] != count*int64(k.size)) {
			err = fmt.Errorf("shape %v of %s in bytes %d to %d of %d: it is cut short or damaged", e.Shape, e.Type, e.Offsets[0], e.Offsets[1], size-first)
		}
		origin := make([]int, len(e.Shape))
		if at, sharded := offsets[name]; sharded && err == nil {
			if len(at) != len(e.Shape) || slices.ContainsFunc(at, func(x int) bool { return x < 0 || x > 1<<48 }) {
				err = fmt.Errorf("saved_offsets %v of shape %v", at, e.Shape)
			}
			origin = at
		}
		if err != nil {
			return nil, fmt.Errorf("array %q: %w", name, err)
		}
		a := &Array{Name: name, Shape: e.Shape, kind: k}
		a.parts = []part{{from: r, at: first + e.Offsets[0], origin: origin, shape: e.Shape, strides: dense(e.Shape, false)}}
		a.sharded = offsets[name] != nil
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b *Array) int { return int(min(1, max(-1, a.parts[0].at-b.parts[0].at))) })
	return all, nil
}

// savedOffsets returns the places of parts of arrays, which PyTorch's distributed writer stores in
// the metadata as JSON in a string.
func savedOffsets(raw json.RawMessage) (map[string][]int, error) {
	var meta map[string]string
	if raw == nil {
		return nil, nil
	}
	if err := json.Unmarshal(raw, &meta); err != nil {
		return nil, err
	}
	text, ok := meta["DCP_SHARDING_INFO"]
	if !ok {
		return nil, nil
	}
	var info map[string]struct {
		Offsets []int `json:"saved_offsets"`
	}
	if err := json.Unmarshal([]byte(text), &info); err != nil {
		return nil, fmt.Errorf("DCP_SHARDING_INFO: %w", err)
	}
	all := map[string][]int{}
	for name, x := range info {
		all[name] = x.Offsets
	}
	return all, nil
}

// join adds the part of an array of the same name in another file.
func (a *Array) join(b *Array) error {
	if !a.sharded || !b.sharded {
		return fmt.Errorf("array %s is in %s and in %s, without saved_offsets: which one is meant? Move one of the files away", a.Name, a.File, b.File)
	}
	if a.kind.name != b.kind.name || len(a.Shape) != len(b.Shape) {
		return fmt.Errorf("array %s is %s %v in %s and %s %v in %s", a.Name, a.kind.name, a.Shape, a.File, b.kind.name, b.Shape, b.File)
	}
	a.parts = append(a.parts, b.parts...)
	return nil
}

// assemble computes the shape of an array of several parts and checks that they fill it.
func (a *Array) assemble() error {
	if !a.sharded {
		return nil
	}
	shape := make([]int, len(a.Shape))
	have := int64(0)
	for i := range a.parts {
		p := &a.parts[i]
		n, err := elements(p.shape)
		if err != nil {
			return err
		}
		have += n
		for d := range shape {
			shape[d] = max(shape[d], p.origin[d]+p.shape[d])
		}
		for j := range a.parts[:i] {
			if a.parts[j].overlaps(p) {
				return fmt.Errorf("array %s: two of its parts have the same elements, from %v and %v on", a.Name, a.parts[j].origin, p.origin)
			}
		}
	}
	want, err := elements(shape)
	if err != nil {
		return err
	}
	if have != want {
		return fmt.Errorf("array %s of shape %v: its parts have %d of %d elements: a file is missing", a.Name, shape, have, want)
	}
	a.Shape = shape
	return nil
}

func (p *part) overlaps(q *part) bool {
	for d := range p.shape {
		if p.origin[d] >= q.origin[d]+q.shape[d] || q.origin[d] >= p.origin[d]+p.shape[d] {
			return false
		}
	}
	return true
}
