package checkpoint

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/wdlrun/wdlrun/internal/machine/regular"
)

// Copy copies the checkpoint c and its bases to another root, including attached parts. Each
// copy is atomic, as with Commit. Existing complete checkpoints are not changed. To collect
// attached parts, pass the root that contains c. Copy does not verify the bytes of c; call
// Verify first if necessary.
func Copy(c *Checkpoint, root string) error {
	links := c.Chain()
	for i, link := range links {
		if i < len(links)-1 { // c itself is opened below
			if have, err := openLink(Dir(root, link.Step())); err == nil && have.sum == link.sum && len(have.Away()) == 0 {
				continue
			}
		}
		if err := copyTo(system{}, link, root); err != nil {
			return err
		}
	}
	return nil
}

func copyTo(d disk, c *Checkpoint, root string) error {
	dir := tmpDir(root, c.Step())
	fail := func(err error) error {
		d.Remove(dir)
		return fmt.Errorf("checkpoint: copy: %s to %s: %w%s", c.Dir(), root, err, advice(err))
	}
	if err := acceptRun(d, root, c.Manifest().Run); err != nil {
		return fail(err)
	}
	if err := c.complete(); err != nil {
		return fail(err)
	}
	for p, f := range c.manifest.Files {
		in, done, err := c.open(p)
		if err == nil {
			err = copyFile(d, io.NewSectionReader(in, 0, f.Size), filepath.Join(dir, f.Name))
			done() // it was only read
		}
		if err != nil {
			return fail(err)
		}
	}
	text, err := regular.ReadFile(filepath.Join(c.Dir(), manifestName), maxManifest)
	if err == nil {
		err = writeFile(d, filepath.Join(dir, manifestName), text)
	}
	if err != nil {
		return fail(err)
	}
	if err := d.Sync(dir); err != nil {
		return fail(err)
	}
	if err := publish(d, root, c.Step()); err != nil {
		return fail(err)
	}
	return nil
}

func copyFile(d disk, in io.Reader, to string) (err error) {
	out, err := d.Create(to)
	if err != nil {
		return err
	}
	if _, err = io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{in}, make([]byte, chunk)); err == nil {
		err = out.Sync()
	}
	if e := out.Close(); err == nil {
		err = e
	}
	return err
}
