package checkpoint

import "fmt"

// FirstTurn returns names, or makes a turn of a fixed name if there are none.
func FirstTurn(root string, names []string) ([]string, error) {
	if len(names) > 0 {
		return names, nil
	}
	err := makeDir(root)
	if err == nil {
		err = makeOne(InTurn(root, "none"))
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoint: turn: %w%s", err, advice(err))
	}
	return []string{"none"}, nil
}

// TakeTurn renames turns, which Turns or FirstTurn has returned, to one of a new name. Clean then
// removes what was being written. If another group was faster, errors.Is(err, fs.ErrNotExist) holds.
func TakeTurn(root string, from []string, to string) error {
	for i, name := range from {
		at := InTurn(root, to)
		if i > 0 {
			at = delDir(at, int64(i))
		}
		if err := (system{}).Rename(InTurn(root, name), at); err != nil {
			return fmt.Errorf("checkpoint: turn: %w%s", err, advice(err))
		}
	}
	return system{}.Sync(root)
}
