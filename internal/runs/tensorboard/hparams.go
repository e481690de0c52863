package tensorboard

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wdlrun/wdlrun/internal/runs"
)

// Field numbers, see the package comment.
const (
	valueTensor, pluginContent                  = 8, 2
	tensorType, tensorShape, tensorFloats       = 1, 2, 5
	shapeDim, dimSize                           = 2, 1
	pluginStart, pluginEnd                      = 3, 4
	startHParams, startTime                     = 1, 5
	mapKey, mapValue, numberValue, textValue    = 1, 2, 2, 3
	boolValue                                   = 4
	endStatus, endTime                          = 1, 2
	statusSuccess                               = 1
	typeFloat                                   = 1
	startTag, endTag, hparamsPlugin, maxHParams = "_hparams_/session_start_info", "_hparams_/session_end_info", "hparams", 200
)

// Keys returns the settings of runs that are written as hyperparameters: the settings of the
// model and of training, and all that differ.
func Keys(all []*runs.Summary) []string {
	keys := runs.Differing(all)
	for _, r := range all {
		for _, key := range r.Config.Keys() {
			if (strings.HasPrefix(key, "model.") || strings.HasPrefix(key, "train.")) && !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	return keys[:min(len(keys), maxHParams)]
}

// Begin writes the settings of keys as the hyperparameters of the training.
func (w *Writer) Begin(settings *runs.Settings, keys []string, at time.Time) error {
	f, err := w.in(folderModel)
	if err != nil {
		return err
	}
	var start []byte
	for _, key := range keys {
		if v := settings.Of(key); v != "" {
			entry := protowire.AppendString(protowire.AppendTag(nil, mapKey, protowire.BytesType), key)
			start = message(start, startHParams, message(entry, mapValue, structValue(v)))
		}
	}
	return f.plugin(at, startTag, message(nil, pluginStart, double(start, startTime, seconds(at))))
}

// End writes the end of a training that has a result. A training without one has no end, as
// it can be resumed: TensorBoard shows the first end that it reads, whatever follows.
func (w *Writer) End(at time.Time) error {
	f, err := w.in(folderModel)
	if err != nil {
		return err
	}
	end := protowire.AppendVarint(protowire.AppendTag(nil, endStatus, protowire.VarintType), statusSuccess)
	return f.plugin(at, endTag, message(nil, pluginEnd, double(end, endTime, seconds(at))))
}

// plugin appends an event with a value for the plugin, and a tensor, which every value
// needs.
func (f *file) plugin(at time.Time, tag string, content []byte) error {
	data := protowire.AppendString(protowire.AppendTag(nil, pluginName, protowire.BytesType), hparamsPlugin)
	meta := message(nil, metadataPlugin, message(data, pluginContent, content))
	tensor := message(tensorOf(typeFloat, 1), tensorFloats, make([]byte, 4))
	v := protowire.AppendString(protowire.AppendTag(nil, valueTag, protowire.BytesType), tag)
	v = message(message(v, valueTensor, tensor), valueMetadata, meta)
	return f.event(at, 0, eventSummary, message(nil, summaryValue, v))
}

// structValue returns a google.protobuf.Value.
func structValue(text string) []byte {
	if x, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(x) && !math.IsInf(x, 0) {
		return double(nil, numberValue, x)
	}
	if text == "true" || text == "false" {
		return protowire.AppendVarint(protowire.AppendTag(nil, boolValue, protowire.VarintType), protowire.EncodeBool(text == "true"))
	}
	return protowire.AppendString(protowire.AppendTag(nil, textValue, protowire.BytesType), text)
}

func message(to []byte, field protowire.Number, m []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(to, field, protowire.BytesType), m)
}

func double(to []byte, field protowire.Number, x float64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(to, field, protowire.Fixed64Type), math.Float64bits(x))
}
