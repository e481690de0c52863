package house

import (
	"slices"
	"strings"
	"testing"
)

// maxRooms limits the folders of Go code at the first level and below internal.
const maxRooms = 28

// room returns the folder at the first level, or the one below internal, of a package.
func room(pkg string) string {
	parts := strings.SplitN(pkg, "/", 3)
	if parts[0] == "internal" && len(parts) > 1 {
		return parts[0] + "/" + parts[1]
	}
	return parts[0]
}

// TestRoomsDependOneWay limits the number of rooms, and requires that their imports have no
// cycle: a reader can learn one room after the other.
func TestRoomsDependOneWay(t *testing.T) {
	t.Parallel()
	imports := map[string]map[string]string{} // by room: the rooms that it imports, and an example
	for _, s := range sources(t) {
		from := room(s.dir())
		if imports[from] == nil {
			imports[from] = map[string]string{}
		}
		if s.isTest() {
			continue
		}
		for _, imp := range s.file.Imports {
			if dep, ok := strings.CutPrefix(strings.Trim(imp.Path.Value, `"`), module); ok && room(dep) != from {
				imports[from][room(dep)] = s.path + " imports " + dep
			}
		}
	}
	if len(imports) > maxRooms {
		t.Errorf("%d rooms, at most %d are allowed: put a new package under a roof that exists", len(imports), maxRooms)
	}
	for len(imports) > 0 { // remove rooms that import no other, until none is left
		var free []string
		for room, deps := range imports {
			if len(deps) == 0 {
				free = append(free, room)
			}
		}
		if len(free) == 0 {
			for room, deps := range imports {
				for dep, example := range deps {
					t.Errorf("rooms %s and %s are part of a cycle of imports: %s", room, dep, example)
				}
			}
			return
		}
		for _, room := range free {
			delete(imports, room)
		}
		for _, deps := range imports {
			for dep := range deps {
				if slices.Contains(free, dep) {
					delete(deps, dep)
				}
			}
		}
	}
}
