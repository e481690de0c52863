package arrays

import (
	"archive/zip"
	"fmt"
	"io"
	"path"
	"strings"
)

// torch reads a state dict that torch.save has written: an archive of one pickle and of storages.
// Tensors in nested dicts get names joined by dots. skipped counts the values that are no tensors.
func torch(r io.ReaderAt, size int64) (all []*Array, skipped int, err error) {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, 0, err
	}
	if len(z.File) > maxArrays {
		return nil, 0, fmt.Errorf("%d members, at most %d are possible", len(z.File), maxArrays)
	}
	members := map[string]*zip.File{}
	root := ""
	for _, f := range z.File {
		members[f.Name] = f
		if path.Base(f.Name) == "data.pkl" {
			root = path.Dir(f.Name)
		}
	}
	head := members[root+"/data.pkl"]
	if head == nil {
		return nil, 0, fmt.Errorf("it has no data.pkl: it is no file of torch.save")
	}
	if members[root+"/constants.pkl"] != nil {
		return nil, 0, refused{"it is a TorchScript program, not a state dict"}
	}
	if head.UncompressedSize64 > maxPickle {
		return nil, 0, fmt.Errorf("data.pkl has %d bytes, at most %d are possible", head.UncompressedSize64, maxPickle)
	}
	text, err := whole(r, head)
	if err != nil {
		return nil, 0, err
	}
	big := false
	if order := members[root+"/byteorder"]; order != nil && order.UncompressedSize64 < 16 {
		b, err := whole(r, order)
		if err != nil {
			return nil, 0, err
		}
		big = string(b) == "big"
	}
	x, err := unpickle(text)
	if err != nil {
		return nil, 0, err
	}
	d := &dict{open: map[string]*storage{}, big: big, find: func(key string) (io.ReaderAt, int64, error) {
		f := members[root+"/data/"+key]
		if f == nil {
			return nil, 0, fmt.Errorf("storage %q is missing", key)
		}
		return member(r, f)
	}}
	if err := d.flatten("", x, 0); err != nil {
		return nil, 0, err
	}
	return d.all, d.skipped, nil
}

func whole(r io.ReaderAt, f *zip.File) ([]byte, error) {
	in, n, err := member(r, f)
	if err != nil {
		return nil, err
	}
	b := make([]byte, n)
	return b, readAt(in, b, 0)
}

// dict collects the tensors of a state dict.
type dict struct {
	all     []*Array
	skipped int
	big     bool
	open    map[string]*storage
	find    func(key string) (io.ReaderAt, int64, error)
}

type storage struct {
	from io.ReaderAt
	size int64
}

// maxDepth limits the nesting of dicts.
const maxDepth = 32

func (d *dict) flatten(name string, x any, depth int) error {
	if depth > maxDepth || len(d.all) > maxArrays || d.skipped > maxStack {
		return fmt.Errorf("%s: it is nested too deep or has too many entries", name)
	}
	join := func(part any) string { return strings.TrimPrefix(fmt.Sprintf("%s.%v", name, part), ".") }
	switch x := x.(type) {
	case *pyDict:
		for i, k := range x.keys {
			if err := d.flatten(join(k), x.values[i], depth+1); err != nil {
				return err
			}
		}
	case *pyList:
		for i, v := range x.items {
			if err := d.flatten(join(i), v, depth+1); err != nil {
				return err
			}
		}
	case pyTuple:
		for i, v := range x {
			if err := d.flatten(join(i), v, depth+1); err != nil {
				return err
			}
		}
	case pyTensor:
		return d.tensor(name, x)
	default:
		d.skipped++
	}
	return nil
}

func (d *dict) tensor(name string, t pyTensor) error {
	if len(name) > maxName {
		return fmt.Errorf("a name of %d bytes", len(name))
	}
	s := d.open[t.storage.key]
	if s == nil {
		from, size, err := d.find(t.storage.key)
		if err != nil {
			return err
		}
		s = &storage{from, size}
		d.open[t.storage.key] = s
	}
	k, known := kindNamed(t.storage.kind)
	if !known {
		return fmt.Errorf("tensor %s has a storage of an unknown type", name)
	}
	p := part{from: s.from, at: t.offset * int64(k.size), origin: make([]int, len(t.shape)), shape: t.shape, strides: t.strides, big: d.big}
	if t.offset > 1<<48 {
		return fmt.Errorf("tensor %s begins at element %d", name, t.offset)
	}
	n, err := p.reaches()
	if err == nil && p.at+n*int64(k.size) > s.size {
		err = fmt.Errorf("it needs %d bytes of a storage of %d: the file is damaged", p.at+n*int64(k.size), s.size)
	}
	if err != nil {
		return fmt.Errorf("tensor %s: %w", name, err)
	}
	d.all = append(d.all, &Array{Name: name, Shape: t.shape, kind: k, parts: []part{p}})
	return nil
}
