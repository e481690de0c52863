package export

import "github.com/wdlrun/wdlrun/sparse/table"

// EachRow calls f with every row of table i and its key, until f returns an error. The values are
// valid until f returns. Rows that are stored in fewer bits are widened.
func (m *Model) EachRow(i int, f func(key uint64, values []float32) error) error {
	newer := map[uint64]bool{} // keys of the layers so far
	all := append([]mapped{m.base.tables[i]}, m.layers[i]...)
	values := make([]float32, all[0].codec.width)
	for l := len(all) - 1; l >= 0; l-- {
		for n := range all[l].n {
			key, row := all[l].row(n)
			if newer[key] {
				continue
			}
			all[l].codec.decode(values, row)
			if l > 0 {
				newer[key] = true
			}
			if table.IsUnknown(values) { // a row that was removed
				continue
			}
			if err := f(key, values); err != nil {
				return err
			}
		}
	}
	return nil
}
