-- The join of wdlrun join in Flink SQL, on topics: an interval join with watermarks. No test of this
-- repository runs it.
--
-- Impressions and feedback have the fields request and time (Unix, in milliseconds). A sample is an
-- impression with label 1 if it has feedback within 30 minutes, and 0 otherwise.

SET 'execution.checkpointing.interval' = '10 s';     -- each is a transaction of the sink
SET 'table.exec.source.idle-timeout' = '5 min';      -- -idle: a partition without records holds up no other

CREATE TABLE shown (
  request STRING,
  item STRING,
  `time` BIGINT,
  shown_at AS TO_TIMESTAMP_LTZ(`time`, 3),
  arrived AS PROCTIME(),
  WATERMARK FOR shown_at AS shown_at - INTERVAL '2' MINUTE   -- -delay
) WITH ('connector' = 'kafka', 'topic' = 'shown', 'properties.bootstrap.servers' = 'host:9092',
        'properties.group.id' = 'join', 'scan.startup.mode' = 'earliest-offset', 'format' = 'json');

CREATE TABLE clicks (
  request STRING,
  `time` BIGINT,
  clicked_at AS TO_TIMESTAMP_LTZ(`time`, 3),
  arrived AS PROCTIME(),
  WATERMARK FOR clicked_at AS clicked_at - INTERVAL '2' MINUTE
) WITH ('connector' = 'kafka', 'topic' = 'clicks', 'properties.bootstrap.servers' = 'host:9092',
        'properties.group.id' = 'join', 'scan.startup.mode' = 'earliest-offset', 'format' = 'json');

CREATE TABLE samples (
  request STRING,
  item STRING,
  `time` BIGINT,
  label INT
) WITH ('connector' = 'kafka', 'topic' = 'samples', 'properties.bootstrap.servers' = 'host:9092',
        'format' = 'json', 'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'join');

-- The first record of a key that arrives: an interval join takes no retractions.
CREATE TEMPORARY VIEW shown_once AS
  SELECT request, item, `time`, shown_at
  FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY request ORDER BY arrived) AS n FROM shown) WHERE n = 1;
CREATE TEMPORARY VIEW clicks_once AS
  SELECT request, clicked_at
  FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY request ORDER BY arrived) AS n FROM clicks) WHERE n = 1;

SET 'table.exec.state.ttl' = '1 h';                  -- of the two views: longer than window and delay

INSERT INTO samples
  SELECT s.request, s.item, s.`time`, CASE WHEN c.request IS NULL THEN 0 ELSE 1 END
  FROM shown_once s LEFT JOIN clicks_once c
    ON s.request = c.request AND c.clicked_at BETWEEN s.shown_at AND s.shown_at + INTERVAL '30' MINUTE;
