package tfs

import "testing"

func TestResponses(t *testing.T) {
	s := loadSchema(t)
	spec := ModelSpec{Name: "ctr", Version: 7, HasVersion: true, Signature: "sig"}
	wantSpec := obj{"name": "ctr", "version": obj{"value": int64(7)}, "signature_name": "sig"}
	floats := func(x ...float32) obj {
		l := list{}
		for _, v := range x {
			l = append(l, v)
		}
		return obj{"dtype": int32(Float), "tensor_shape": shape(int64(len(x))), "float_val": l}
	}
	column := func(x ...float32) obj {
		o := floats(x...)
		o["tensor_shape"] = shape(int64(len(x)), 1)
		return o
	}
	s.same(t, AppendPredictResponse(nil, &spec, []Output{{"score", []float32{.5, 1}, false}, {"logit", []float32{0, 2}, true}}), "tensorflow.serving.PredictResponse", obj{
		"model_spec": wantSpec, "outputs": list{obj{"key": "score", "value": floats(.5, 1)}, obj{"key": "logit", "value": column(0, 2)}},
	})
	classes := []Class{{"0", []float32{.25, .5}}, {"1", []float32{.75, .5}}}
	result := obj{"classifications": list{
		obj{"classes": list{obj{"label": "0", "score": float32(.25)}, obj{"label": "1", "score": float32(.75)}}},
		obj{"classes": list{obj{"label": "0", "score": float32(.5)}, obj{"label": "1", "score": float32(.5)}}},
	}}
	s.same(t, AppendClassificationResponse(nil, &spec, classes), "tensorflow.serving.ClassificationResponse", obj{"model_spec": wantSpec, "result": result})
	values := obj{"regressions": list{obj{"value": float32(3)}, obj{"value": float32(0)}}}
	s.same(t, AppendRegressionResponse(nil, &spec, []float32{3, 0}), "tensorflow.serving.RegressionResponse", obj{"model_spec": wantSpec, "result": values})
	s.same(t, AppendMultiInferenceResponse(nil, []Inference{{spec, classes, nil}, {spec, nil, []float32{3, 0}}}), "tensorflow.serving.MultiInferenceResponse", obj{
		"results": list{obj{"model_spec": wantSpec, "classification_result": result}, obj{"model_spec": wantSpec, "regression_result": values}},
	})
	s.same(t, AppendStatusResponse(nil, []VersionStatus{{7, Available, Status{}}, {8, End, Status{13, "broken"}}}), "tensorflow.serving.GetModelStatusResponse", obj{
		"model_version_status": list{
			obj{"version": int64(7), "state": int32(30), "status": obj{}},
			obj{"version": int64(8), "state": int32(50), "status": obj{"error_code": int32(13), "error_message": "broken"}},
		},
	})
	s.same(t, AppendReloadConfigResponse(nil, Status{3, "no"}), "tensorflow.serving.ReloadConfigResponse", obj{"status": obj{"error_code": int32(3), "error_message": "no"}})
}

func TestMetadata(t *testing.T) {
	s := loadSchema(t)
	spec := ModelSpec{Name: "ctr"}
	signatures := []Signature{{"serving_default", MethodPredict, []TensorInfo{{"age", "age:0", Int64, []int64{-1}}}, []TensorInfo{{"score", "score:0", Float, []int64{-1}}}}}
	info := func(name string, of DataType) obj {
		return obj{"name": name, "dtype": int32(of), "tensor_shape": shape(-1)}
	}
	signature := s.encode(t, "tensorflow.serving.SignatureDefMap", obj{"signature_def": list{obj{"key": "serving_default", "value": obj{
		"inputs":      list{obj{"key": "age", "value": info("age:0", Int64)}},
		"outputs":     list{obj{"key": "score", "value": info("score:0", Float)}},
		"method_name": "tensorflow/serving/predict",
	}}}})
	s.same(t, AppendMetadataResponse(nil, &spec, signatures), "tensorflow.serving.GetModelMetadataResponse", obj{
		"model_spec": obj{"name": "ctr"},
		"metadata": list{obj{"key": "signature_def", "value": obj{
			"type_url": "type.googleapis.com/tensorflow.serving.SignatureDefMap", "value": signature,
		}}},
	})
}

// TestEnums compares the numbers of types and states with the table.
func TestEnums(t *testing.T) {
	for _, cells := range enumRows(t) {
		switch cells.message {
		case "tensorflow.DataType":
			if x, ok := types[DataType(cells.number)]; ok && x.name != cells.name {
				t.Errorf("type %d is %s, the table says %s", cells.number, x.name, cells.name)
			}
		case "tensorflow.serving.ModelVersionStatus.State":
			if got := State(cells.number).String(); got != cells.name {
				t.Errorf("state %d is %s, the table says %s", cells.number, got, cells.name)
			}
		}
	}
}
