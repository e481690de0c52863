package bench

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// TurnBytes is the length of a turn of Options.Turns.
const TurnBytes = 32

// turn is one line to measure.
type turn struct {
	op    operation
	use   bool
	bytes int
}

// nextTurn reads a turn. It returns io.EOF for "end" and at the end of the reader.
func nextTurn(r io.Reader, most int) (turn, error) {
	var record [TurnBytes]byte
	switch n, err := io.ReadFull(r, record[:]); {
	case err == io.EOF:
		return turn{}, io.EOF
	case errors.Is(err, io.ErrUnexpectedEOF):
		return turn{}, fmt.Errorf("turn %q is of %d bytes: add spaces until each has %d", record[:n], n, TurnBytes)
	case err != nil:
		return turn{}, fmt.Errorf("read a turn: %w", err)
	}
	text := strings.TrimSpace(string(record[:]))
	if text == "end" {
		return turn{}, io.EOF
	}
	name, size, _ := strings.Cut(text, " ")
	base, use := strings.CutSuffix(name, "_use")
	op, known := find(base)
	bytes, err := strconv.Atoi(size)
	if !known || err != nil || use && !op.sized || op.sized && (bytes < 4 || bytes > most) {
		return turn{}, fmt.Errorf(`turn %q, want an operation and at most %d bytes, such as "allreduce_use 16384", or "end"`, text, most)
	}
	return turn{op, use, bytes}, nil
}
