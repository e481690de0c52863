// Package tfrecord reads and writes TFRecord files of tf.Example, as
// TensorFlow, Spark and Beam jobs leave them. It works on bytes in memory and
// does no I/O.
//
// # Frame
//
//	0        8          12          12+n        16+n
//	├ length ┼ checksum ┼ record … ┼ checksum ┤
//	uint64 n   of length   n bytes    of record
//
// All integers are little-endian. A checksum is CRC-32C, rotated right by 15
// bits, plus 0xa282ead8 (TensorFlow, core/lib/hash/crc32c.h). The checksum of
// the length lets a reader find the next frame from anywhere in a file.
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
// Decoder takes the features it was made for straight out of the wire format
// into value.Lists, or of usual records into single Values, and passes over the
// rest; no message is built. Its cost is one look at each feature's name; names that
// come in the order of the record before cost a comparison. It allocates nothing
// once its lists have grown.
//
// What a record can hold wrong is an error; nothing panics on data. A Decoder
// belongs to one goroutine.
package tfrecord
