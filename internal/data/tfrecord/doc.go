// Package tfrecord reads and writes TFRecord files of tf.Example, the format of
// TensorFlow, Spark and Beam jobs. It works on bytes in memory and does no I/O.
//
// # Frame
//
//	0        8          12          12+n        16+n
//	├ length ┼ checksum ┼ record … ┼ checksum ┤
//	uint64 n   of length   n bytes    of record
//
// All integers are little-endian. A checksum is CRC-32C, rotated right by 15 bits, plus
// 0xa282ead8 (TensorFlow, core/lib/hash/crc32c.h). The checksum of the length lets a
// reader find the next frame from anywhere in a file.
//
// # tf.Example
//
// A record is the protobuf message (tensorflow/core/example/feature.proto)
//
//	Example   { Features features = 1 }
//	Features  { map<string, Feature> feature = 1 }
//	Feature   { oneof { BytesList = 1, FloatList = 2, Int64List = 3 } }
//	…List     { repeated value = 1 }          numbers packed or not
//
// A tf.SequenceExample is a tf.Example with FeatureLists { map<string, FeatureList> = 1 } as field
// 2. A feature list is a field too: a list with one value, or a null, for each step. Lists
// makes an Example of each of a list of examples with a context (ExampleListWithContext).
//
// Decoder decodes the features of its names directly from the wire format, without
// building a message: into a value.List per feature, or for simple records into single values. It looks
// up each feature's name; names in the order of the previous record cost only a
// comparison. It allocates nothing once its lists have grown.
//
// Faults of a record are errors; nothing panics on data. A Decoder belongs to one
// goroutine.
package tfrecord
