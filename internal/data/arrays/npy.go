package arrays

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// npyTypes maps the types of NumPy, without byte order.
var npyTypes = map[string]string{
	"f8": "F64", "f4": "F32", "f2": "F16", "i8": "I64", "i4": "I32", "i2": "I16", "i1": "I8",
	"u8": "U64", "u4": "U32", "u2": "U16", "u1": "U8", "b1": "BOOL",
}

// npy reads the header of a .npy file.
func npy(r io.ReaderAt, size int64, name string) (*Array, error) {
	var head [12]byte
	if err := readAt(r, head[:10], 0); err != nil {
		return nil, err
	}
	if string(head[:6]) != "\x93NUMPY" || head[6] < 1 || head[6] > 3 {
		return nil, fmt.Errorf("it begins with %q, which is no .npy file of version 1 to 3", head[:8])
	}
	at, n := int64(10), int64(le.Uint16(head[8:]))
	if head[6] > 1 {
		if err := readAt(r, head[:], 0); err != nil {
			return nil, err
		}
		at, n = 12, int64(le.Uint32(head[8:]))
	}
	if n > min(maxHeader, size-at) {
		return nil, fmt.Errorf("a header of %d bytes in a file of %d: it is cut short or damaged", n, size)
	}
	text := make([]byte, n)
	if err := readAt(r, text, at); err != nil {
		return nil, err
	}
	descr, shape, columns, err := npyHeader(string(text))
	if err != nil {
		return nil, err
	}
	k, known := kindNamed(npyTypes[strings.TrimLeft(descr, "<>|=")])
	if !known {
		return nil, fmt.Errorf("elements of type %q; numbers of at most 64 bits are supported: np.save(%q, a.astype('float32'))", descr, name+".npy")
	}
	count, err := elements(shape)
	if err == nil && count*int64(k.size) > size-at-n {
		err = fmt.Errorf("shape %v of %s needs %d bytes, the file has %d: it is cut short", shape, descr, count*int64(k.size), size-at-n)
	}
	if err != nil {
		return nil, err
	}
	p := part{from: r, at: at + n, origin: make([]int, len(shape)), shape: shape, strides: dense(shape, columns), big: descr[0] == '>'}
	return &Array{Name: name, Shape: shape, kind: k, parts: []part{p}}, nil
}

// npyFields match the entries of a header, a Python literal that NumPy writes in this form.
var npyFields = regexp.MustCompile(`'descr':\s*'([^']*)'|'fortran_order':\s*(True|False)|'shape':\s*\(([0-9, L]*)\)`)

func npyHeader(text string) (descr string, shape []int, columns bool, err error) {
	found := 0
	for _, m := range npyFields.FindAllStringSubmatch(text, -1) {
		found++
		switch {
		case strings.HasPrefix(m[0], "'descr'"):
			descr = m[1]
		case strings.HasPrefix(m[0], "'fortran"):
			columns = m[2] == "True"
		default:
			for _, d := range strings.Split(m[3], ",") {
				if d = strings.TrimRight(strings.TrimSpace(d), "L"); d == "" {
					continue
				}
				n, err := strconv.Atoi(d)
				if err != nil {
					return "", nil, false, fmt.Errorf("shape (%s)", m[3])
				}
				shape = append(shape, n)
			}
		}
	}
	if found != 3 || descr == "" {
		return "", nil, false, fmt.Errorf("header %.80q: descr, fortran_order and shape are not those of one array of numbers", text)
	}
	return descr, shape, columns, nil
}

// maxInflated limits the bytes of a compressed member of an archive.
const maxInflated = 1 << 32

// member opens a file of an archive. A compressed one is held in memory.
func member(r io.ReaderAt, f *zip.File) (io.ReaderAt, int64, error) {
	size := int64(f.UncompressedSize64)
	if f.Method == zip.Store {
		at, err := f.DataOffset()
		return io.NewSectionReader(r, at, size), size, err
	}
	if size > maxInflated || size < 0 {
		return nil, 0, fmt.Errorf("%s has %d bytes when it is decompressed, at most %d are possible: store it without compression", f.Name, size, int64(maxInflated))
	}
	in, err := f.Open()
	if err != nil {
		return nil, 0, err
	}
	defer in.Close()
	b, err := io.ReadAll(io.LimitReader(in, size)) // grows with the bytes that arrive
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", f.Name, err)
	}
	return bytes.NewReader(b), int64(len(b)), nil
}

// npz reads an archive of .npy files.
func npz(r io.ReaderAt, size int64) (all []*Array, err error) {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, err
	}
	if len(z.File) > maxArrays {
		return nil, fmt.Errorf("%d members, at most %d are possible", len(z.File), maxArrays)
	}
	for _, f := range z.File {
		name, isArray := strings.CutSuffix(f.Name, ".npy")
		if !isArray {
			continue
		}
		in, n, err := member(r, f)
		if err != nil {
			return nil, err
		}
		a, err := npy(in, n, name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		all = append(all, a)
	}
	return all, nil
}
