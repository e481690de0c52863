// Package examplepb contains the message tf.Example, generated from example.proto
// by protoc-gen-go. Go programs usually decode TFRecord files with such code.
// Package input compares package tfrecord with it.
package examplepb

//go:generate protoc --go_out=. --go_opt=paths=source_relative example.proto
