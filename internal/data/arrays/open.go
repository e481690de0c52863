package arrays

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// Open opens a file, or the files directly in a folder, and reads their headers. Files of other
// kinds in a folder are left out.
func Open(path string) (*Folder, error) {
	f := &Folder{}
	if err := f.open(path); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (f *Folder) open(path string) error {
	path = prefixed(path)
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	names := []string{path}
	if isPair(path) {
		return f.pair(path, filepath.Base(path))
	}
	if info.IsDir() {
		if names, err = candidates(path); err != nil {
			return err
		}
	}
	for _, name := range names {
		if isPair(name) {
			if err := f.pair(name, filepath.Base(name)); err != nil {
				return err
			}
			continue
		}
		if err := f.add(name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, a := range f.Arrays {
		if err := a.assemble(); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	if len(f.Arrays) == 0 {
		return fmt.Errorf("%s: there are no arrays: it must be a run, a checkpoint, an exported model, or files of %s", path, strings.Join(endings(), ", "))
	}
	return nil
}

// prefixed returns the index of a checkpoint of TensorFlow that is named without its ending, or the
// folder of the variables of a SavedModel; otherwise the path.
func prefixed(path string) string {
	if _, err := os.Stat(filepath.Join(path, "saved_model.pb")); err == nil {
		return filepath.Join(path, "variables")
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(path + ".index"); err == nil {
			return path + ".index"
		}
	}
	return path
}

// Readable reports whether a path is a file of arrays, or a folder with one.
func Readable(path string) bool {
	path = prefixed(path)
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	if !info.IsDir() || isPair(path) {
		return true
	}
	names, err := candidates(path)
	return err != nil || len(names) > 0
}

func endings() []string {
	return []string{".safetensors", ".npy", ".npz", ".pt", ".pth", ".model", ".parquet", ".index"}
}

// candidates lists the files of a folder that may hold arrays, or that show that the folder cannot
// be read.
func candidates(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := e.Name()
		switch {
		case name == ".metadata":
			return nil, convert(fmt.Errorf("%s is a distributed checkpoint with pickled metadata", dir), fmt.Sprintf(`from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
dcp_to_torch_save(%q, "model.pt")`, dir))
		case isPair(filepath.Join(dir, name)):
			names = append(names, filepath.Join(dir, name))
		case slices.Contains(endings(), filepath.Ext(name)) || slices.Contains(convertible(), filepath.Ext(name)):
			names = append(names, filepath.Join(dir, name))
		}
	}
	index := func(name string) bool { return filepath.Ext(name) == ".index" }
	if first := slices.IndexFunc(names, index); first >= 0 && slices.ContainsFunc(names[first+1:], index) {
		return nil, fmt.Errorf("%s has several checkpoints of TensorFlow: name one of them, such as %s", dir, strings.TrimSuffix(names[first], ".index"))
	}
	if len(names) > maxFiles {
		return nil, fmt.Errorf("%s: %d files, at most %d are possible", dir, len(names), maxFiles)
	}
	return names, nil
}

// convert appends the script that converts a file.
func convert(err error, script string) error {
	return fmt.Errorf("%w. This script writes what can be read:\n\n%s", err, script)
}

// toSafetensors is the script that converts a file of torch.save.
func toSafetensors(path string) string {
	return fmt.Sprintf(`import torch
from safetensors.torch import save_file
x = torch.load(%q, weights_only=False)  # executes code of the file
x = x.state_dict() if hasattr(x, "state_dict") else x
save_file({k: v.contiguous().clone() for k, v in x.items() if torch.is_tensor(v)}, "model.safetensors")`, path)
}

// add reads the header of a file.
func (f *Folder) add(path string) error {
	base := filepath.Base(path)
	ext := filepath.Ext(base)
	if ext == ".keras" || ext == ".h5" || ext == ".hdf5" {
		return convert(fmt.Errorf("files of Keras are not read"), fmt.Sprintf(`import keras, numpy
model = keras.models.load_model(%q)
numpy.savez("model.npz", **{w.path.replace("/", "."): w.numpy() for w in model.weights})`, path))
	}
	file, err := regular.Open(path)
	if err != nil {
		return err
	}
	f.files = append(f.files, file)
	info, err := file.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	var all []*Array
	switch ext {
	case ".npy":
		var a *Array
		a, err = npy(file, size, strings.TrimSuffix(base, ext))
		all = []*Array{a}
	case ".npz":
		all, err = npz(file, size)
	case ".parquet":
		if all, err = vectors(file, size, strings.TrimSuffix(base, ext)); errors.Is(err, errNoVectors) {
			return nil // a file of values
		}
	case ".safetensors":
		all, err = safetensors(file, size)
	case ".pt", ".pth", ".model", ".bin": // .model: of FuxiCTR
		skipped := 0
		all, skipped, err = torch(file, size)
		var x refused
		if old := !isZip(file); old || errors.As(err, &x) {
			if old {
				err = errors.New("it has the format that torch.save wrote before version 1.6")
			}
			return convert(err, toSafetensors(path))
		}
		if skipped > 0 {
			f.Notes = append(f.Notes, fmt.Sprintf("%s: %d values that are no tensors are left out", base, skipped))
		}
	case ".index":
		all, err = f.bundle(path, file, size)
	default:
		return fmt.Errorf("its name ends with none of %s", strings.Join(endings(), ", "))
	}
	if err != nil {
		return err
	}
	return f.take(base, all)
}

// bundle reads the index of a checkpoint of TensorFlow, and opens its files of data.
func (f *Folder) bundle(path string, index io.ReaderAt, size int64) ([]*Array, error) {
	if size > maxHeader {
		return nil, fmt.Errorf("an index of %d bytes, at most %d are possible", size, maxHeader)
	}
	b := make([]byte, size)
	if err := readAt(index, b, 0); err != nil {
		return nil, err
	}
	all, texts, skipped, err := bundle(b, func(shard, shards int) (io.ReaderAt, int64, error) {
		file, err := regular.Open(fmt.Sprintf("%s.data-%05d-of-%05d", strings.TrimSuffix(path, ".index"), shard, shards))
		if err != nil {
			return nil, 0, err
		}
		f.files = append(f.files, file)
		info, err := file.Stat()
		if err != nil {
			return nil, 0, err
		}
		return file, info.Size(), nil
	})
	f.Texts = texts
	if skipped > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf("%s: %d tensors that are made of neither numbers nor strings are left out", filepath.Base(path), skipped))
	}
	return all, err
}

func isZip(r io.ReaderAt) bool {
	var head [4]byte
	return readAt(r, head[:], 0) == nil && bytes.Equal(head[:], []byte("PK\x03\x04"))
}

func convertible() []string { return []string{".keras", ".h5", ".hdf5", ".bin"} }
