package input

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/wdlrun/wdlrun/collective"
	"github.com/wdlrun/wdlrun/internal/config"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/machine/regular"
	"github.com/wdlrun/wdlrun/internal/train/save"
)

// surveyMagic is the first line of a survey file. It is followed by the number of data sets,
// the counts of each and the encoder, each with its length as a uvarint.
const surveyMagic = "wdlsurvey1\n"

// maxSets is the largest number of data sets in a survey.
const maxSets = 3

// Shareable reports whether the survey of a training can be used by others. A stream has no
// survey, and the counts do not include records held out by their time.
func Shareable(c *config.Config) bool { return !c.Data.Follow.On && c.Data.ValidTime == "" }

// SurveyName returns the file name of the survey of a filled configuration. It depends on
// data, label and features only.
func SurveyName(c *config.Config) string {
	of := struct {
		Data schema.Source
		By   schema.Schema
		Seed uint64
		How  int // how random rows are held out; counts the versions
	}{c.Data, SchemaOf(c), 0, 1}
	if c.Data.ValidFraction > 0 || c.Data.NegativeRate > 0 {
		of.Seed = c.Train.Seed // it determines the selected records
	}
	b, err := json.Marshal(of)
	if err != nil {
		panic(err) // a configuration has only text and numbers
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:12]) + ".survey"
}

// SaveSurvey writes the results of Survey and SurveyOthers atomically. Keep must be set.
func (in *Input) SaveSurvey(path string) error {
	b := binary.AppendUvarint([]byte(surveyMagic), uint64(len(in.Counts)))
	for _, part := range append(in.Counts[:len(in.Counts):len(in.Counts)], in.Encoded) {
		b = append(binary.AppendUvarint(b, uint64(len(part))), part...)
	}
	part := path + fmt.Sprintf(".%d", os.Getpid())
	if err := regular.WriteFile(part, b, 0o644); err != nil {
		os.Remove(part)
		return err
	}
	return regular.Rename(part, path)
}

// Recall loads a survey from a file, which rank 0 reads for all ranks. It reports whether the
// file exists. encoded, if not nil, is the encoder of a checkpoint, which replaces the encoder of
// the survey.
func (in *Input) Recall(ctx context.Context, path string, encoded []byte) (found bool, err error) {
	var b []byte
	fault, err := save.First(in.Comm, in.Rec, func() (err error) {
		if b, err = regular.ReadFile(path, maxShare); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err == nil && fault != "" {
		err = errors.New("survey: " + fault)
	}
	if err != nil {
		return false, err
	}
	if b, err = collective.BroadcastBytes(in.Comm, b, 0, maxShare); err != nil || len(b) == 0 {
		return false, err
	}
	counts, own, err := parseSurvey(b)
	if err == nil {
		if encoded == nil {
			encoded = own
		}
		err = in.Restore(counts, encoded)
	}
	if err == nil {
		err = in.encode(nil, encoded)
	}
	if err == nil {
		err = countRates(ctx, in)
	}
	if err != nil {
		return false, fmt.Errorf("survey %s does not fit the data: %w; if the data has changed, delete the file", path, err)
	}
	return true, nil
}

func parseSurvey(b []byte) (counts [][]byte, encoded []byte, err error) {
	damaged := errors.New("the file is damaged")
	if len(b) < len(surveyMagic) || string(b[:len(surveyMagic)]) != surveyMagic {
		return nil, nil, damaged
	}
	b = b[len(surveyMagic):]
	n, w := binary.Uvarint(b)
	if w <= 0 || n > maxSets {
		return nil, nil, damaged
	}
	b = b[w:]
	for range n + 1 {
		size, w := binary.Uvarint(b)
		if w <= 0 || size > uint64(len(b)-w) {
			return nil, nil, damaged
		}
		counts, b = append(counts, b[w:w+int(size)]), b[w+int(size):]
	}
	if len(b) > 0 {
		return nil, nil, damaged
	}
	return counts[:n], counts[n], nil
}
