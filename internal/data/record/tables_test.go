package record

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

// A folder of a table also holds rows that the table no longer has. Its files are rejected,
// however they are named, and the error has the command that exports the current rows.
func TestFilesOfTablesAreRejected(t *testing.T) {
	for _, x := range []struct {
		format string
		log    []string // files of its log
		data   string   // a data file
		export string   // part of the command
	}{
		{"Delta", []string{"_delta_log/00000000000000000000.json"}, "part-0.csv", "name the folder of the table"},
		{"Delta", []string{"_delta_log/00000000000000000000.json"}, "60/dt=1/part-0.csv", "name the folder of the table"},
		{"Iceberg", []string{"metadata/v9.metadata.json", "metadata/v10.gz.metadata.json", "metadata/snap-1.avro"}, "data/dt=1/0.csv", "'ROOT/metadata/v10.gz.metadata.json'"},
		{"Iceberg", []string{"metadata/00001-a-b.metadata.json", "metadata/00000-f-e.metadata.json"}, "data/0.csv", "'ROOT/metadata/00001-a-b.metadata.json'"},
		{"Hudi", []string{".hoodie/hoodie.properties"}, "2026/11/a_0-1-1_20261101.csv", "from_base_uri('ROOT')"},
		{"Paimon", []string{"schema/schema-0", "manifest/manifest-list-0", "snapshot/snapshot-1"}, "dt=1/bucket-0/data-0.csv", "from_path('ROOT')"},
		{"Spark streaming", []string{"_spark_metadata/0"}, "part-00000.csv", "format('csv').load('ROOT')"},
	} {
		parent, err := filepath.EvalSymlinks(t.TempDir())
		fatal.If(t, err)
		root := filepath.Join(parent, "clicks")
		for _, name := range append(x.log, x.data) {
			fatal.If(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700))
			fatal.If(t, os.WriteFile(filepath.Join(root, name), []byte("a,b\n1,2\n"), 0o600))
		}
		fatal.If(t, os.WriteFile(filepath.Join(root, x.log[0]), []byte(`{"path":"file:///clicks/part-00000-c000.csv.gz","action":"add"}`), 0o600))
		file := filepath.Join(root, x.data)
		links := t.TempDir()
		fatal.If(t, os.Symlink(file, filepath.Join(links, "file.csv")))
		fatal.If(t, os.Symlink(filepath.Dir(file), filepath.Join(links, "folder")))
		for _, name := range []string{
			root, root + "/", parent, filepath.Join(parent, "*"), filepath.Dir(file), file, "file://" + file,
			filepath.Join(filepath.Dir(file), "*.csv"), filepath.Join(root, x.log[0]),
			filepath.Join(links, "file.csv"), filepath.Join(links, "folder"), filepath.Join(links, "folder", "*"),
		} {
			_, err := Resolve([]string{name})
			if x.format == "Delta" && err != nil && strings.Contains(err.Error(), ": Delta log: it names no protocol") {
				continue // the folder itself: its log is read
			}
			if err == nil || !strings.Contains(err.Error(), " the "+x.format+" table "+root+", whose") ||
				!strings.Contains(err.Error(), strings.ReplaceAll(x.export, "ROOT", root)) {
				t.Errorf("%s: %s: %v", x.format, strings.Replace(name, parent, "", 1), err)
			}
			if _, err := List([]string{name}); err == nil {
				t.Errorf("%s: %s is listed for other hosts", x.format, name)
			}
		}
	}
}

// Folders that merely resemble a table are read.
func TestFoldersBesideTablesAreRead(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		"clicks/part-0.csv", "clicks/metadata/about.metadata.json", "clicks/metadata/version.json",
		"clicks/schema/schema-0", "clicks/snapshot/LATEST", "table/_delta_log/0.json", "table/part-0.csv",
	} {
		fatal.If(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		fatal.If(t, os.WriteFile(filepath.Join(dir, name), []byte("a,b\n1,2\n"), 0o600))
	}
	for _, name := range []string{"clicks/*.csv", "clicks/part-0.csv"} {
		if files, err := Resolve([]string{filepath.Join(dir, name)}); err != nil || len(files) != 1 {
			t.Errorf("%s: %v, %v", name, files, err)
		}
	}
}
