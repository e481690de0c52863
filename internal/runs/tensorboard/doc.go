// Package tensorboard writes the metrics of a training as event files of TensorBoard: one
// folder each for training, validation and test metrics, for the progress and for the times of each
// rank. A file above the metrics has the settings, for the plugin hparams. A Writer follows a
// training that runs, or the files of one that has run.
//
// An event file is TFRecord frames (package tfrecord) of the protobuf message Event
// (tensorboard/compat/proto/event.proto):
//
//	Event    { double wall_time = 1; int64 step = 2; string file_version = 3; bytes graph_def = 4;
//	           Summary summary = 5; SessionLog session_log = 7 }
//	SessionLog { SessionStatus status = 1 }   1: start. Events of earlier files from its step on are discarded
//	Summary  { repeated Value value = 1 }
//	Value    { string tag = 1; float simple_value = 2; TensorProto tensor = 8; SummaryMetadata metadata = 9 }
//	SummaryMetadata { PluginData plugin_data = 1; DataClass data_class = 4 }   1: scalars, 2: tensors
//	PluginData      { string plugin_name = 1; bytes content = 2 }
//
// The content of the plugin hparams (tensorboard/plugins/hparams/plugin_data.proto):
//
//	HParamsPluginData { SessionStartInfo session_start_info = 3; SessionEndInfo session_end_info = 4 }
//	SessionStartInfo  { map<string, google.protobuf.Value> hparams = 1; double start_time_secs = 5 }
//	SessionEndInfo    { Status status = 1; double end_time_secs = 2 }   1: success
//
// The file of validation metrics also has tensors (tensor.proto):
//
//	TensorProto { DataType dtype = 1; TensorShapeProto tensor_shape = 2;
//	              repeated float float_val = 5; repeated double double_val = 6 }
//
//	histograms  [k,3], double: lower limit, upper limit and count of k bins
//	pr_curves   [6,n], float: true positives, false positives, true negatives, false
//	            negatives, precision and recall of n thresholds; content: n = 2
//
// The file of training metrics has the model (tensorflow/core/framework/graph.proto,
// node_def.proto, attr_value.proto):
//
//	GraphDef  { repeated NodeDef node = 1; VersionDef versions = 4 }   VersionDef { int32 producer = 1 }
//	NodeDef   { string name = 1; string op = 2; repeated string input = 3; map<string, AttrValue> attr = 5 }
//	AttrValue { ListValue list = 1; bytes s = 2; int64 i = 3 }         ListValue { repeated TensorShapeProto shape = 7 }
//
// The first event has the version "brain.Event:2". The first value of each tag has the
// metadata. Numbers that are not finite are left out.
package tensorboard
