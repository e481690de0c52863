package raw

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
)

func TestBytesIsTheLittleEndianEncoding(t *testing.T) {
	x := []uint64{1, 0x0102030405060708, 1 << 63}
	var want []byte
	for _, v := range x {
		want = binary.LittleEndian.AppendUint64(want, v)
	}
	if got := Bytes(x); !bytes.Equal(got, want) {
		t.Fatalf("Bytes = %x, want %x", got, want)
	}
	if back := Of[uint64](Bytes(x)); !slices.Equal(back, x) {
		t.Fatalf("Of(Bytes(x)) = %v, want %v", back, x)
	}
}

func TestEmpty(t *testing.T) {
	if Bytes([]float32{}) != nil || Of[float32](nil) != nil {
		t.Fatal("an empty slice views as nil")
	}
}

func TestOfRefusesAWrongLength(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Fatal("Of accepted 7 bytes as float32")
		}
	}()
	Of[float32](make([]byte, 7))
}
