package data_test

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wdlrun/wdlrun/internal/data"
	"github.com/wdlrun/wdlrun/internal/data/inspect"
	"github.com/wdlrun/wdlrun/internal/data/schema"
	"github.com/wdlrun/wdlrun/internal/testkit/fatal"
)

var dataSets = flag.String("data", "", "TestDataSets: folder with adult, chicago-taxi, interop and ml-latest-small")

// dataSet is a public data set as published, with expected values that an independent
// program counted, in the format of known.
type dataSet struct {
	files     string // glob
	source    schema.Source
	label     schema.Label
	positives int64
	figures   string
}

var adultLayout = schema.Source{
	Fields: strings.Fields(`age workclass fnlwgt education education_num marital_status occupation relationship race sex
		capital_gain capital_loss hours_per_week native_country income`),
	Comment: "|", Missing: []string{"?"},
}

// The labels. A tip of at least two dollars is in every form of the trips.
var (
	tipped = 2.0
	liked  = 4.0
	rich   = schema.Label{Field: "income", Positive: []string{">50K", ">50K."}}
	tip    = schema.Label{Field: "tips", Threshold: &tipped}
	click  = schema.Label{Field: "clk", Positive: []string{"1"}}
)

// The rows of Parquet are the rows of the text: of both parts of Adult, and records 4 to
// 10,003 of the taxi trips, where an unknown company is written nan.
var sets = []dataSet{
	{"adult/adult.data", adultLayout, rich, 7841, `32561 age:0:1256257 workclass:1836:- fnlwgt:0:6179373392 education:0:-
		education_num:0:328237 marital_status:0:- occupation:1843:- relationship:0:- race:0:- sex:0:- capital_gain:0:35089324
		capital_loss:0:2842700 hours_per_week:0:1316684 native_country:583:- income:0:-`},
	{"adult/adult.test", adultLayout, rich, 3846, `16281 age:0:631173 workclass:963:- fnlwgt:0:3084202270 education:0:-
		education_num:0:163997 marital_status:0:- occupation:966:- relationship:0:- race:0:- sex:0:- capital_gain:0:17614497
		capital_loss:0:1431088 hours_per_week:0:657626 native_country:274:- income:0:-`},
	{"adult/*.parquet", schema.Source{Format: "parquet", Missing: []string{"?"}}, rich, 11687, `48842 age:0:1887430
		workclass:2799:- fnlwgt:0:9263575662 educational-num:0:492234 occupation:2809:- capital-gain:0:52703821
		capital-loss:0:4273788 hours-per-week:0:1974310 native-country:857:- income=2`},
	{"adult/a9a.train.libsvm", schema.Source{}, schema.Label{Field: "label", Positive: []string{"+1", "1"}}, 7841,
		`32561 label:0:-16879 features:0:22513357 values:0:451592`},
	{"adult/a9a.test.libsvm", schema.Source{}, schema.Label{Field: "label", Positive: []string{"+1", "1"}}, 3846,
		`16281 label:0:-8589 features:0:11254800 values:0:225731`},
	{"chicago-taxi/data.csv", schema.Source{}, tip, 4046, `15002 pickup_community_area:2:333754 fare:0:176546.78
		trip_start_month:0:98798 trip_start_hour:0:204512 trip_start_day:0:62808 trip_start_timestamp:0:21130242710400
		pickup_latitude:2:628545.68562509 pickup_longitude:2:-1314863.272047627 dropoff_latitude:483:608384.892716639
		dropoff_longitude:483:-1272650.073318513 trip_miles:0:43098.04 pickup_census_tract:15001:17031081401
		dropoff_census_tract:4241:183274306539416 payment_type:0:- company:5140:- trip_seconds:6:11661302
		dropoff_community_area:507:303928 tips:0:16152.27`},
	{"chicago-taxi/*.parquet", schema.Source{}, tip, 2860, `10000 pickup_community_area:0:234435 fare:0:126155.11
		trip_start_month:0:65877 trip_start_hour:0:137458 trip_start_day:0:41619 trip_start_timestamp:0:14086894624200
		pickup_latitude:0:419046.760896211 pickup_longitude:0:-876638.011173921 dropoff_latitude:393:402564.025100864
		dropoff_longitude:393:-842114.281536928 trip_miles:0:33262.62 pickup_census_tract:10000:- payment_type:0:-
		dropoff_census_tract:2978:119594140981184 company:0:- trip_seconds:2:8221064 dropoff_community_area:412:204218
		tips:0:12045.21`},
	{"chicago-taxi/tfrecord/*train*", schema.Source{}, tip, 2688, `9909 company:3361:- dropoff_census_tract:2766:121654890742534
		dropoff_community_area:319:199964 dropoff_latitude:305:402433.409049988 dropoff_longitude:305:-841827.16834259
		fare:0:115546.840011258 payment_type:0:- pickup_census_tract:9908:17031081401 pickup_community_area:0:220454
		pickup_latitude:0:415215.5638237 pickup_longitude:0:-868593.376564026 tips:0:10695.790002236
		trip_miles:0:26816.019980686 trip_seconds:3:7646370 trip_start_day:0:41653 trip_start_hour:0:134894
		trip_start_month:0:65168 trip_start_timestamp:0:13956092395200`},
	{"chicago-taxi/tfrecord/*eval*", schema.Source{}, tip, 1358, `5091 company:1779:- dropoff_census_tract:1473:61619415796882
		dropoff_community_area:186:103964 dropoff_latitude:176:205951.478424072 dropoff_longitude:176:-430822.90145874
		fare:0:60987.490011014 payment_type:0:- pickup_census_tract:5091:- pickup_community_area:0:113300
		pickup_latitude:0:213330.115657806 pickup_longitude:0:-446269.891906738 tips:0:5456.480001075
		trip_miles:0:16282.019990072 trip_seconds:3:4014632 trip_start_day:0:21144 trip_start_hour:0:69580
		trip_start_month:0:33622 trip_start_timestamp:0:7171387362000`},
	{"chicago-taxi/tfrecord-external/*", schema.Source{}, tip, 4046, `15000 company:5140:- dropoff_census_tract:4239:183274305896448
		dropoff_community_area:504:303986 dropoff_latitude:480:608426.704841614 dropoff_longitude:480:-1272737.768661499
		fare:0:176532.530022558 payment_type:0:- pickup_census_tract:15000:- pickup_community_area:0:333807
		pickup_latitude:0:628545.593463898 pickup_longitude:0:-1314863.307922363 tips:0:16152.270003311
		trip_miles:0:43099.039970757 trip_seconds:6:11661302 trip_start_day:0:62799 trip_start_hour:0:204477
		trip_start_month:0:98787 trip_start_timestamp:0:21127504131900`},
	{"chicago-taxi/tfrecord-transformed/*train*", schema.Source{}, schema.Label{Field: "tips_xf", Positive: []string{"1"}}, 2250,
		`9909 company_xf:0:197274 dropoff_census_tract_xf:0:121654890742534 dropoff_community_area_xf:0:199964
		dropoff_latitude_xf:0:45595 dropoff_longitude_xf:0:45853 payment_type_xf:0:3495 pickup_census_tract_xf:0:17031081401
		pickup_community_area_xf:0:220454 pickup_latitude_xf:0:46092 pickup_longitude_xf:0:46412 tips_xf:0:2250
		trip_start_day_xf:0:41653 trip_start_hour_xf:0:134894 trip_start_month_xf:0:65168`},
	{"chicago-taxi/tfrecord-transformed/*eval*", schema.Source{}, schema.Label{Field: "tips_xf", Positive: []string{"1"}}, 1132,
		`5091 company_xf:0:104375 dropoff_census_tract_xf:0:61619415796882 dropoff_community_area_xf:0:103964
		dropoff_latitude_xf:0:23301 dropoff_longitude_xf:0:23511 fare_xf:0:159.975684205 payment_type_xf:0:1763
		pickup_census_tract_xf:0:0 pickup_community_area_xf:0:113300 pickup_latitude_xf:0:24142 pickup_longitude_xf:0:23517
		tips_xf:0:1132 trip_miles_xf:0:416.177303607 trip_seconds_xf:0:104.392198488 trip_start_day_xf:0:21144
		trip_start_hour_xf:0:69580 trip_start_month_xf:0:33622`},
	{"interop/*train.csv", schema.Source{}, click, 4, strings.NewReplacer("adgroup_id:0:48870401", "adgroup_id:0:48841079",
		"click_sequence:84", "click_sequence:75").Replace(known["fuxictr_tiny_csv_test.csv"])},
	{"interop/*valid.csv", schema.Source{}, click, 4, known["fuxictr_tiny_csv_test.csv"]},
	{"interop/*test.csv", schema.Source{}, click, 4, known["fuxictr_tiny_csv_test.csv"]},
	{"interop/*train.tfrecord", schema.Source{}, click, 4, strings.Replace(known["fuxictr_tiny_test.tfrecord"],
		"adgroup_id:0:5031", "adgroup_id:0:4795", 1)},
	{"interop/*valid.tfrecord", schema.Source{}, click, 4, known["fuxictr_tiny_test.tfrecord"]},
	{"interop/*test.tfrecord", schema.Source{}, click, 4, known["fuxictr_tiny_test.tfrecord"]},
	{"interop/*train.parquet", schema.Source{}, click, 4, known["fuxictr_tiny_test.parquet"]},
	{"interop/*valid.parquet", schema.Source{}, click, 4, known["fuxictr_tiny_test.parquet"]},
	{"interop/*test.parquet", schema.Source{}, click, 4, known["fuxictr_tiny_test.parquet"]},
	{"ml-latest-small/ratings.csv", schema.Source{}, schema.Label{Field: "rating", Threshold: &liked}, 48580,
		`100836 userId:0:32885399 movieId:0:1959777479 rating:0:353083 timestamp:0:121602779665887`},
	{"ml-latest-small/movies.csv", schema.Source{}, schema.Label{}, 0, `9742 movieId:0:411115845 title:0:- genres:0:-`},
	{"ml-latest-small/links.csv", schema.Source{}, schema.Label{}, 0, `9742 movieId:0:411115845 imdbId:0:6597125536 tmdbId:8:536948113`},
	{"ml-latest-small/tags.csv", schema.Source{}, schema.Label{}, 0, `3683 userId:0:1587923 movieId:0:100369166 tag:0:- timestamp:0:4861677733812`},
}

// TestDataSets checks public data sets, in full and in every published format, against
// known numbers of records, shares of labels and sums of columns:
//
//	go test ./internal/data -run DataSets -data FOLDER
func TestDataSets(t *testing.T) {
	if *dataSets == "" {
		t.Skip("no folder of data sets is given; run go test ./data -run DataSets -data FOLDER")
	}
	for _, s := range sets {
		t.Run(s.files, func(t *testing.T) {
			pattern := filepath.Join(*dataSets, filepath.FromSlash(s.files))
			if src := s.source; src.Fields == nil && src.Format == "" {
				paths, err := filepath.Glob(pattern)
				if err != nil || len(paths) == 0 {
					t.Fatalf("there is no file %s: %v", pattern, err)
				}
				in, err := inspect.First(paths[0], 0)
				fatal.If(t, err)
				s.source = in.Source()
			}
			fields := checkFiles(t, s.source, pattern, s.figures)
			if s.label.Field == "" {
				return
			}
			feature := fields[0]
			if feature == s.label.Field {
				feature = fields[1]
			}
			checkLabels(t, &s, feature, pattern)
		})
	}
}

// checkLabels counts records and labels as a training does.
func checkLabels(t *testing.T, s *dataSet, feature, pattern string) {
	t.Helper()
	d, err := data.Open(s.source, schema.Schema{Label: s.label, Features: []schema.Feature{{Field: feature, Encode: "hash"}}}, []string{pattern})
	fatal.If(t, err)
	for _, parts := range []int{1, 3} {
		var counts data.Counts
		for p := range parts {
			c, err := d.Scan(context.Background(), p, parts, nil, nil)
			fatal.If(t, err)
			fatal.If(t, counts.Merge(c.Marshal()))
		}
		want, _, _ := strings.Cut(s.figures, " ")
		if fmt.Sprint(counts.Records()) != want || counts.Positives() != s.positives {
			t.Errorf("in %d parts: %d records, %d positive; want %s and %d", parts, counts.Records(), counts.Positives(), want, s.positives)
		}
	}
}
