// Package serve answers requests for scores, with the API of TensorFlow Serving.
//
//	gRPC   PredictionService, ModelService and grpc.health.v1
//	REST   /v1/models/NAME[/versions/N|/labels/L][:predict|:classify|:regress|/metadata]
//
// Both decode a request, and hand it to one core:
//
//	gate      lets so many requests compute; some wait; the rest are rejected at once
//	versions  the version that the request names, held until the answer is ready
//	rows      inputs → batch, by the encoder of training
//	Scorer    batch → logits, by the forward pass of training
//
// so a score has the bits of an evaluation of the same record.
//
// A version keeps as many workers as requests can compute at once. A worker is an encoder
// of requests, a scorer and their memory. Workers are made and warmed up before the version
// answers its first request.
package serve
