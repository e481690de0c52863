package train

import (
	"errors"
	"io/fs"
	"slices"
	"syscall"

	"github.com/wdlrun/wdlrun/internal/train/input"
	"github.com/wdlrun/wdlrun/rank"
)

// permanent marks an error that would occur again after a restart of the job.
func permanent(err error) error {
	if err == nil {
		return nil
	}
	return &rank.PermanentError{Err: err}
}

// permanentAtStart marks an error at the start of a job as permanent if the user must fix its
// cause. Such causes are a missing or inaccessible file or folder, a file that differs
// between hosts, and a full disk. Errors of networks and object stores may be temporary. Once
// a job trains, all these causes may be temporary, since everything it needs has existed.
func permanentAtStart(err error) error {
	causes := []error{input.ErrOtherFiles, fs.ErrNotExist, fs.ErrPermission, syscall.ENOTDIR, syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG, syscall.EROFS}
	if slices.ContainsFunc(causes, func(cause error) bool { return errors.Is(err, cause) }) {
		return &rank.PermanentError{Err: err}
	}
	return err
}
