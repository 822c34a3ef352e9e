CREATE TABLE IF NOT EXISTS plans
(
    tenant           LowCardinality(String),
    time             DateTime64(6, 'UTC') CODEC(Delta, ZSTD(1)),
    published        DateTime64(6, 'UTC') CODEC(Delta, ZSTD(1)),
    stream           LowCardinality(String),
    position         UInt64 CODEC(Delta, ZSTD(1)),
    writer           UUID,
    seq              UInt64 CODEC(Delta, ZSTD(1)),
    event_id         UUID,
    exchange_id      UUID,
    digest           FixedString(32),
    server           LowCardinality(String),
    entries          UInt32,
    plan             String CODEC(ZSTD(3))
)
ENGINE = $ENGINE
PARTITION BY toYYYYMM(published)
ORDER BY (tenant, server, time, event_id)
SETTINGS non_replicated_deduplication_window = 1000, replicated_deduplication_window = 1000
