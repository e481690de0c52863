package convert

import (
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/arrays"
)

// matcher matches tables and layers with arrays.
type matcher struct {
	*Model
	path    string
	from    config.From
	used    map[*arrays.Array]bool
	tables  []tableRows
	guesses []string
	words   map[string][]string
}

// rowKey is a key and its row; a row of −1 is zero.
type rowKey struct {
	key uint64
	row int
}

// tableRows are the arrays of a table, with the keys of their rows.
type tableRows struct {
	parts []partRows
}

// partRows are the values of a part of the rows, or of several parts.
type partRows struct {
	array *arrays.Array
	at    int // first value in a row of the table
	keys  []rowKey
}
