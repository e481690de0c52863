package arrays

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// A checkpoint of TensorFlow (TensorBundle) is PREFIX.index, a sorted table in the format of LevelDB, and
// files PREFIX.data-SHARD-of-SHARDS. The table has a header under the empty key, and an entry for
// each tensor, by name. A variable that is partitioned has an entry of its whole shape with the list
// of its slices, and an entry for each slice, whose key begins with a zero byte.

const (
	bundleFooter = 48
	bundleMagic  = 0xdb4775248b80fb57
	valueSuffix  = "/.ATTRIBUTES/VARIABLE_VALUE" // of variables in checkpoints of objects
)

// bundleKinds are the types of tensors that can be read, by number.
var bundleKinds = map[uint64]string{
	1: "F32", 2: "F64", 3: "I32", 4: "U8", 5: "I16", 6: "I8", 9: "I64", 10: "BOOL", 14: "BF16", 17: "U16", 19: "F16", 22: "U32", 23: "U64",
}

// bundleText is the type of strings.
const bundleText = 7

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// unmasked returns the checksum of a stored one.
func unmasked(stored uint32) uint32 {
	x := stored - 0xa282ead8
	return x>>17 | x<<15
}

var errBundle = errors.New("the index of the checkpoint is damaged")

// bundleEntry describes a tensor or a slice.
type bundleEntry struct {
	kind                uint64
	shape               []int
	shard, offset, size int64
	sum                 uint32
	slices              []part // origin and shape only
}

// bundle reads the index of a checkpoint. open opens a file of data. texts are the lists of strings. It
// returns the number of tensors that are left out, because they are made of neither numbers nor strings.
func bundle(index []byte, open func(shard, shards int) (io.ReaderAt, int64, error)) (all []*Array, texts map[string][]string, skipped int, err error) {
	names, entries, pieces, shards := []string(nil), map[string]*bundleEntry{}, map[string][]*bundleEntry{}, 0
	err = eachEntry(index, func(key, value []byte) error {
		if len(key) == 0 {
			shards, err = bundleHeader(value)
			return err
		}
		e := &bundleEntry{}
		if err := e.parse(value); err != nil {
			return err
		}
		if name, ok := sliceOf(key); ok {
			pieces[name] = append(pieces[name], e)
			return nil
		}
		if len(key) > maxName || len(names) >= maxArrays {
			return fmt.Errorf("a name of %d bytes, or more than %d tensors", len(key), maxArrays)
		}
		names = append(names, string(key))
		entries[string(key)] = e
		return nil
	})
	if err == nil && shards == 0 {
		err = fmt.Errorf("%w: it has no header", errBundle)
	}
	if err != nil {
		return nil, nil, 0, err
	}
	texts = map[string][]string{}
	files := bundleFiles{open: open, shards: shards, opened: map[int64]bundleFile{}}
	for _, name := range names {
		e := entries[name]
		if e.kind == bundleText && len(e.shape) == 1 && len(e.slices) == 0 {
			if texts[strings.TrimSuffix(name, valueSuffix)], err = files.texts(e); err != nil {
				return nil, nil, 0, fmt.Errorf("tensor %s: %w", name, err)
			}
			continue
		}
		if bundleKinds[e.kind] == "" {
			if name != "_CHECKPOINTABLE_OBJECT_GRAPH" {
				skipped++
			}
			continue
		}
		a, err := files.array(name, e, pieces[name])
		if err != nil {
			return nil, nil, 0, fmt.Errorf("tensor %s: %w", name, err)
		}
		all = append(all, a)
	}
	return all, texts, skipped, nil
}

type bundleFile struct {
	io.ReaderAt
	size int64
}

// bundleFiles are the files of data of a checkpoint.
type bundleFiles struct {
	open   func(shard, shards int) (io.ReaderAt, int64, error)
	shards int
	opened map[int64]bundleFile
}

// array returns the array of an entry. The entries of its slices are in the order of their keys, which
// is that of their first elements.
func (f *bundleFiles) array(name string, e *bundleEntry, pieces []*bundleEntry) (*Array, error) {
	a := &Array{Name: strings.TrimSuffix(name, valueSuffix), Shape: e.shape}
	a.kind, _ = kindNamed(bundleKinds[e.kind])
	if _, err := elements(e.shape); err != nil {
		return nil, err
	}
	if len(e.slices) == 0 {
		p, err := f.part(e, a.kind)
		p.origin = make([]int, len(e.shape))
		a.parts = []part{p}
		return a, err
	}
	if a.sharded = true; len(pieces) != len(e.slices) || len(pieces) > maxFiles {
		return nil, fmt.Errorf("it lists %d slices, the index has %d", len(e.slices), len(pieces))
	}
	slices.SortFunc(e.slices, func(a, b part) int {
		for d := range min(len(a.origin), len(b.origin)) {
			if c := cmp.Or(cmp.Compare(a.origin[d], b.origin[d]), cmp.Compare(a.shape[d], b.shape[d])); c != 0 {
				return c
			}
		}
		return cmp.Compare(len(a.origin), len(b.origin))
	})
	for i, s := range e.slices {
		if len(s.origin) != len(e.shape) {
			return nil, fmt.Errorf("slice %d has %d dimensions of %d", i, len(s.origin), len(e.shape))
		}
		for d := range s.shape {
			if s.shape[d] < 0 {
				s.shape[d] = e.shape[d]
			}
			if s.origin[d] < 0 || s.origin[d] > e.shape[d] || s.shape[d] > e.shape[d]-s.origin[d] {
				return nil, fmt.Errorf("slice %d is outside of shape %v", i, e.shape)
			}
		}
		if pieces[i].kind != e.kind || !slices.Equal(pieces[i].shape, s.shape) {
			return nil, fmt.Errorf("slice %d has shape %v, its entry %v", i, s.shape, pieces[i].shape)
		}
		p, err := f.part(pieces[i], a.kind)
		if err != nil {
			return nil, fmt.Errorf("slice %d: %w", i, err)
		}
		p.origin = s.origin
		a.parts = append(a.parts, p)
	}
	shape := a.Shape
	if err := a.assemble(); err != nil {
		return nil, err
	}
	if !slices.Equal(shape, a.Shape) {
		return nil, fmt.Errorf("its slices have shape %v, it has %v", a.Shape, shape)
	}
	a.sharded = false
	return a, nil
}

// file opens the file of an entry.
func (f *bundleFiles) file(e *bundleEntry) (file bundleFile, err error) {
	file, ok := f.opened[e.shard]
	if !ok {
		if e.shard < 0 || e.shard >= int64(f.shards) {
			return file, fmt.Errorf("it is in file %d of %d", e.shard, f.shards)
		}
		if file.ReaderAt, file.size, err = f.open(int(e.shard), f.shards); err != nil {
			return file, err
		}
		f.opened[e.shard] = file
	}
	return file, nil
}

var errBundleSum = errors.New("its checksum does not fit its elements: the checkpoint is damaged")

// texts returns the strings of an entry: their lengths as varints, a masked checksum of the lengths, and
// their bytes. The checksum of the entry is of the lengths as uint32, of that checksum, and of the bytes.
func (f *bundleFiles) texts(e *bundleEntry) ([]string, error) {
	file, err := f.file(e)
	if err != nil {
		return nil, err
	}
	n, err := elements(e.shape)
	if err != nil {
		return nil, err
	}
	if e.offset < 0 || e.offset > file.size || e.size < n+4 || e.size > min(maxValues, file.size-e.offset) {
		return nil, fmt.Errorf("%d strings in %d bytes from %d on, its file has %d bytes", n, e.size, e.offset, file.size)
	}
	b := make([]byte, e.size)
	if err := readAt(file, b, e.offset); err != nil {
		return nil, err
	}
	sum, lengths := uint32(0), make([]uint64, n)
	for i := range lengths {
		length, used := protowire.ConsumeVarint(b)
		if used < 0 || length > uint64(len(b)) {
			return nil, errBundleSum
		}
		lengths[i], b = length, b[used:]
		sum = crc32.Update(sum, castagnoli, le.AppendUint32(nil, uint32(length)))
	}
	if len(b) < 4 || unmasked(le.Uint32(b)) != sum || unmasked(e.sum) != crc32.Update(sum, castagnoli, b) {
		return nil, errBundleSum
	}
	b = b[4:]
	all := make([]string, n)
	for i, length := range lengths {
		if length > uint64(len(b)) {
			return nil, errBundleSum
		}
		all[i], b = string(b[:length]), b[length:]
	}
	return all, nil
}

// part returns the place of the elements of an entry, after their checksum was checked.
func (f *bundleFiles) part(e *bundleEntry, k kind) (p part, err error) {
	file, err := f.file(e)
	if err != nil {
		return p, err
	}
	n, err := elements(e.shape)
	if err != nil {
		return p, err
	}
	if e.size != n*int64(k.size) || e.offset < 0 || e.offset > file.size || e.size > file.size-e.offset {
		return p, fmt.Errorf("%d elements of %s in %d bytes from %d on, its file has %d bytes", n, k.name, e.size, e.offset, file.size)
	}
	sum := crc32.New(castagnoli)
	if _, err := io.Copy(sum, io.NewSectionReader(file, e.offset, e.size)); err != nil {
		return p, err
	}
	if sum.Sum32() != unmasked(e.sum) {
		return p, errBundleSum
	}
	return part{from: file, at: e.offset, shape: e.shape, strides: dense(e.shape, false)}, nil
}

// sliceOf returns the name of the variable of a key that is of a slice: a zero byte and the name,
// which ends with 0 1; in it, 0 is written as 0 255, and 255 as 255 0.
func sliceOf(key []byte) (name string, ok bool) {
	if key[0] != 0 {
		return "", false
	}
	var b []byte
	for rest := key[1:]; len(rest) > 0; rest = rest[1:] {
		switch {
		case rest[0] != 0 && rest[0] != 255:
		case len(rest) < 2:
			return string(b), true
		case rest[0] == 0 && rest[1] == 1:
			return string(b), true
		default:
			b, rest = append(b, rest[0]), rest[1:]
			continue
		}
		b = append(b, rest[0])
	}
	return string(b), true
}

// eachEntry calls f with the entries of a table.
func eachEntry(index []byte, f func(key, value []byte) error) error {
	if len(index) < bundleFooter || le.Uint64(index[len(index)-8:]) != bundleMagic {
		return errors.New("it is no index of a checkpoint of TensorFlow")
	}
	footer := index[len(index)-bundleFooter:]
	_, footer, err := handle(footer) // of a table that is not used
	if err != nil {
		return err
	}
	at, _, err := handle(footer)
	if err != nil {
		return err
	}
	end := uint64(0) // of the block before: each is read once
	return eachInBlock(index, at, func(_, value []byte) error {
		at, _, err := handle(value)
		if err == nil && at[0] < end {
			err = errBundle
		}
		if err != nil {
			return err
		}
		end = at[0] + at[1]
		return eachInBlock(index, at, f)
	})
}

// handle reads the offset and the size of a block.
func handle(b []byte) (at [2]uint64, rest []byte, err error) {
	for i := range at {
		x, n := binary.Uvarint(b)
		if n <= 0 {
			return at, nil, errBundle
		}
		at[i], b = x, b[n:]
	}
	return at, b, nil
}

// eachInBlock calls f with the entries of a block: the number of bytes that the key has in common with
// the one before, those that follow, the length of the value, and both. The offsets of some entries,
// their number, the kind of compression and a checksum follow.
func eachInBlock(index []byte, at [2]uint64, f func(key, value []byte) error) error {
	const trailer = 5
	size := uint64(len(index))
	if at[0] > size || at[1] > size-at[0] || size-at[0]-at[1] < trailer || at[1] < 4 {
		return errBundle
	}
	all := index[at[0]:][:at[1]+trailer]
	b := all[:at[1]]
	switch {
	case crc32.Checksum(all[:at[1]+1], castagnoli) != unmasked(le.Uint32(all[at[1]+1:])):
		return fmt.Errorf("%w: a checksum does not fit", errBundle)
	case all[at[1]] != 0:
		return errors.New("the index of the checkpoint is compressed, which TensorFlow does not do: write it again with tf.train.Checkpoint")
	}
	restarts := uint64(le.Uint32(b[len(b)-4:]))
	if restarts > uint64(len(b)-4)/4 {
		return errBundle
	}
	b = b[:uint64(len(b))-4-4*restarts]
	var key []byte
	for len(b) > 0 {
		var x [3]uint64
		for i := range x {
			v, n := binary.Uvarint(b)
			if n <= 0 {
				return errBundle
			}
			x[i], b = v, b[n:]
		}
		if x[0] > uint64(len(key)) || x[1] > uint64(len(b)) || x[2] > uint64(len(b))-x[1] {
			return errBundle
		}
		key = append(key[:x[0]], b[:x[1]]...)
		if err := f(bytes.Clone(key), b[x[1]:x[1]+x[2]]); err != nil {
			return err
		}
		b = b[x[1]+x[2]:]
	}
	return nil
}

// fields calls f with the fields of a message: its number, and its varint or its bytes.
func fields(b []byte, f func(n protowire.Number, x uint64, b []byte) error) error {
	for len(b) > 0 {
		num, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errBundle
		}
		b = b[n:]
		x, value := uint64(0), []byte(nil)
		switch kind {
		case protowire.VarintType:
			x, n = protowire.ConsumeVarint(b)
		case protowire.Fixed32Type:
			var v uint32
			v, n = protowire.ConsumeFixed32(b)
			x = uint64(v)
		case protowire.BytesType:
			value, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(num, kind, b)
		}
		if n < 0 {
			return errBundle
		}
		b = b[n:]
		if err := f(num, x, value); err != nil {
			return err
		}
	}
	return nil
}

// bundleHeader returns the number of files of data.
func bundleHeader(b []byte) (shards int, err error) {
	big := false
	err = fields(b, func(n protowire.Number, x uint64, _ []byte) error {
		switch n {
		case 1:
			shards = int(min(x, maxFiles+1))
		case 2:
			big = x != 0
		}
		return nil
	})
	switch {
	case err == nil && big:
		err = errors.New("its numbers are big-endian: write it again on a machine of the usual kind")
	case err == nil && (shards < 1 || shards > maxFiles):
		err = fmt.Errorf("%d files of data, 1 to %d are possible", shards, maxFiles)
	}
	return shards, err
}

// parse reads the message of an entry.
func (e *bundleEntry) parse(b []byte) error {
	return fields(b, func(n protowire.Number, x uint64, b []byte) (err error) {
		switch n {
		case 1:
			e.kind = x
		case 2:
			e.shape, err = shapeOf(b)
		case 3:
			e.shard = int64(x)
		case 4:
			e.offset = int64(x)
		case 5:
			e.size = int64(x)
		case 6:
			e.sum = uint32(x)
		case 7:
			var s part
			err = fields(b, func(n protowire.Number, _ uint64, b []byte) error {
				if n != 1 {
					return nil
				}
				start, length := 0, -1 // the whole dimension
				s.origin, s.shape = append(s.origin, 0), append(s.shape, 0)
				err := fields(b, func(n protowire.Number, x uint64, _ []byte) error {
					switch {
					case x > 1<<48:
						return errBundle
					case n == 1:
						start = int(x)
					case n == 2:
						length = int(x)
					}
					return nil
				})
				s.origin[len(s.origin)-1], s.shape[len(s.shape)-1] = start, length
				return err
			})
			e.slices = append(e.slices, s)
		}
		return err
	})
}

// shapeOf reads the message of a shape.
func shapeOf(b []byte) (shape []int, err error) {
	err = fields(b, func(n protowire.Number, _ uint64, b []byte) error {
		if n != 2 {
			return nil
		}
		size := 0
		err := fields(b, func(n protowire.Number, x uint64, _ []byte) error {
			if n == 1 {
				size = int(min(x, 1<<48+1))
			}
			return nil
		})
		shape = append(shape, size)
		return err
	})
	return shape, err
}
