// Package controlpb is the wire form of the control plane, generated from
// control.proto. Programs use package internal/control instead.
package controlpb

//go:generate protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative control.proto
