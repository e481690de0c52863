package serve

import (
	"errors"
	"io/fs"
	"os"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/wdlrun/wdlrun/internal/serve/rows"
	"github.com/wdlrun/wdlrun/internal/serve/versions"
)

func isAbsent(err error) bool { return errors.Is(err, fs.ErrNotExist) || os.IsNotExist(err) }

// Unlike is the error of a version whose logits differ too much from the current one's.
type Unlike struct{ why string }

func (e *Unlike) Error() string { return e.why }

// fault gives an error the status code of TensorFlow Serving.
func fault(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	code := codes.Internal
	if _, is := errors.AsType[*rows.Fault](err); is {
		code = codes.InvalidArgument
	}
	if _, is := errors.AsType[*versions.NotFound](err); is {
		code = codes.NotFound
	}
	if _, is := errors.AsType[*versions.BadWant](err); is {
		code = codes.InvalidArgument
	}
	return status.Error(code, err.Error())
}

// invalid returns the error of an invalid request.
func invalid(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, "serve: "+format, args...)
}

// broken returns the error of a request that cannot be decoded.
func broken(err error) error { return invalid("%v", err) }
