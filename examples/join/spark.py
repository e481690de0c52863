"""The join of wdlrun join as a stream-stream join of Spark Structured Streaming, on folders of JSON lines.

    spark-submit spark.py IMPRESSIONS FEEDBACK SAMPLES CHECKPOINT

Impressions and feedback have the fields request and time (Unix, in milliseconds). A sample is an impression with
label 1 if it has feedback within 30 minutes, and 0 otherwise; it is written when the watermark has passed
that. The differences from wdlrun join: Spark keeps the first feedback that arrives, wdlrun the earliest; Spark
drops late records without a trace; at the end of its input, Spark keeps the impressions whose window is open.
"""
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

WINDOW, DELAY = '30 minutes', '2 minutes'


def stream(spark, folder):
    """Follows a folder, with the fields of the files that are there."""
    schema = spark.read.json(folder).schema
    return spark.readStream.schema(schema).option('maxFilesPerTrigger', 4).json(folder)


def once(records, at):
    """Drops repeated records: request is the key."""
    return records.withColumn(at, f.timestamp_millis('time')).withWatermark(at, DELAY).dropDuplicatesWithinWatermark(['request'])


def main(impressions, feedback, samples, checkpoint):
    spark = SparkSession.builder.config('spark.sql.shuffle.partitions', 2).config('spark.sql.session.timeZone', 'UTC').getOrCreate()
    shown = once(stream(spark, impressions), 'shown')
    clicked = once(stream(spark, feedback), 'clicked').select(f.col('request').alias('of'), 'clicked')
    joined = shown.join(clicked, f.expr(f'request = of AND clicked BETWEEN shown AND shown + INTERVAL {WINDOW}'), 'leftOuter')
    labelled = joined.withColumn('label', f.col('clicked').isNotNull().cast('int')).drop('shown', 'clicked', 'of')
    # Without availableNow, the query runs until it is stopped.
    labelled.writeStream.format('json').option('path', samples).option('checkpointLocation', checkpoint).trigger(availableNow=True).start().awaitTermination()


if __name__ == '__main__':
    main(*sys.argv[1:5])
