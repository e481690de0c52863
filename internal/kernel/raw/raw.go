// Package raw views slices of numbers as bytes and back, without copying.
//
// Wire and file formats of this module are little-endian, and so are all supported
// machines; the view is therefore the encoding. A big-endian port would only change this
// package.
package raw

import "unsafe"

// Number is any type whose memory is its little-endian encoding.
type Number interface {
	~uint8 | ~uint16 | ~int32 | ~uint32 | ~int64 | ~uint64 | ~float32 | ~float64
}

// Bytes returns the memory of x as bytes: len(x)·sizeof(T) of them. The result
// aliases x.
func Bytes[T Number](x []T) []byte {
	if len(x) == 0 {
		return nil
	}
	var t T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(t)))
}

// Of is the inverse of Bytes. It panics if len(b) is not a multiple of the size of T or if
// b is not aligned for T.
func Of[T Number](b []byte) []T {
	if len(b) == 0 {
		return nil
	}
	var t T
	size, p := unsafe.Sizeof(t), unsafe.Pointer(unsafe.SliceData(b))
	if uintptr(len(b))%size != 0 || uintptr(p)%size != 0 {
		panic("raw: Of: length or alignment does not fit the type")
	}
	return unsafe.Slice((*T)(p), uintptr(len(b))/size)
}

// Size returns the size of T in bytes.
func Size[T Number]() int {
	var t T
	return int(unsafe.Sizeof(t))
}
