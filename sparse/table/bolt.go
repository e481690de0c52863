package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"runtime/debug"
	"slices"

	"go.etcd.io/bbolt"
)

// bolt is a store in a bbolt file: one bucket, records by number. It does not sync, because
// no other run reads the file. Its name is removed at once, so that a killed run leaves no
// file.
type bolt struct {
	dir, path string
	db        *bbolt.DB
	broken    error // the file is damaged: bbolt cannot continue or close it
}

var rowsBucket = []byte("rows")

func openBolt(dir string) (*bolt, error) {
	b := &bolt{dir: dir}
	return b, b.open()
}

// open creates the file.
func (b *bolt) open() error {
	b.broken = nil
	f, err := os.CreateTemp(b.dir, "table-*.rows")
	if err != nil {
		return err
	}
	b.path = f.Name()
	if err := f.Close(); err != nil {
		return err
	}
	db, err := bbolt.Open(b.path, 0o600, &bbolt.Options{NoSync: true, NoGrowSync: true, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return errors.Join(err, os.Remove(b.path))
	}
	if err := os.Remove(b.path); err == nil { // some systems cannot remove an open file
		b.path = b.dir
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket(rowsBucket)
		return err
	})
	if err != nil {
		return errors.Join(err, db.Close())
	}
	b.db = db
	return nil
}

func (b *bolt) put(ids []Row, record func(i int) []byte) (err error) {
	if b.broken != nil {
		return b.broken
	}
	defer b.guard(&err, debug.SetPanicOnFault(true))
	return b.db.Update(func(tx *bbolt.Tx) error {
		rows := tx.Bucket(rowsBucket)
		rows.FillPercent = 0.9 // numbers are assigned in order
		var sealed []byte      // all records: bbolt does not copy values until it commits
		key := make([]byte, 4)
		for i, id := range ids {
			at := len(sealed)
			if sealed = seal(sealed, id, record(i)); i == 0 {
				sealed = slices.Grow(sealed, (len(ids)-1)*len(sealed))
			}
			binary.BigEndian.PutUint32(key, uint32(id))
			if err := rows.Put(key, sealed[at:]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b *bolt) get(ids []Row, use func(i int, record []byte) error) (err error) {
	if b.broken != nil {
		return b.broken
	}
	defer b.guard(&err, debug.SetPanicOnFault(true))
	return b.db.View(func(tx *bbolt.Tx) error {
		rows, key := tx.Bucket(rowsBucket), make([]byte, 4)
		for i, id := range ids {
			binary.BigEndian.PutUint32(key, uint32(id))
			record, err := unseal(rows.Get(key), id)
			if err != nil {
				return err
			}
			if err := use(i, record); err != nil {
				return err
			}
		}
		return nil
	})
}

// guard turns the effects of a damaged file into an error: a panic of bbolt, or the fault
// of reading mapped memory past the end of a truncated file. It is deferred. before is the
// goroutine's previous setting for faults.
func (b *bolt) guard(err *error, before bool) {
	debug.SetPanicOnFault(before)
	if fault := recover(); fault != nil {
		b.broken = fmt.Errorf("the file is damaged: %v", fault)
		*err = b.broken
	}
	if *err != nil {
		*err = fmt.Errorf("%s: %w", b.path, *err)
	}
}

func (b *bolt) reset() error { return errors.Join(b.close(), b.open()) }

func (b *bolt) close() error {
	if b.broken != nil { // bbolt never releases the locks that it held when it broke
		return nil
	}
	err := b.db.Close()
	if b.path != b.dir {
		err = errors.Join(err, os.Remove(b.path))
	}
	return err
}

// seal appends the checksum of a stored record. It includes the number of the record, so
// that a misplaced record is detected.
func seal(b []byte, id Row, record []byte) []byte {
	b = append(b, record...)
	return binary.LittleEndian.AppendUint32(b, sealOf(id, record))
}

// unseal returns the record that seal wrote, or an error if the checksum differs.
func unseal(b []byte, id Row) ([]byte, error) {
	if len(b) < 4 {
		return nil, fmt.Errorf("row %d is missing or cut short", id)
	}
	record := b[:len(b)-4]
	if want, is := binary.LittleEndian.Uint32(b[len(record):]), sealOf(id, record); want != is {
		return nil, fmt.Errorf("row %d: the checksum is %08x, the file has %08x", id, is, want)
	}
	return record, nil
}

func sealOf(id Row, record []byte) uint32 {
	var number [4]byte
	binary.LittleEndian.PutUint32(number[:], uint32(id))
	return crc32.Update(crc32.Update(0, castagnoli, number[:]), castagnoli, record)
}
