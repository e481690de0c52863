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
