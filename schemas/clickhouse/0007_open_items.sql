CREATE TABLE IF NOT EXISTS open_items
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
    kind             LowCardinality(String),
    role             LowCardinality(String),
    idx              UInt32,
    part             UInt32,
    parts            UInt32,
    keep             LowCardinality(String),
    salt             FixedString(32) CODEC(NONE),
    session_id       String,
    request_id       String,
    method           LowCardinality(String),
    target           String,
    principal_type   LowCardinality(String),
    principal        String,
    client_name      LowCardinality(String),
    client_version   LowCardinality(String),
    client_address   String,
    user_agent       String,
    protocol_version LowCardinality(String),
    reason           String,
    data             String CODEC(ZSTD(1)),
    INDEX by_exchange exchange_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_principal principal TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_session session_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_target target TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_writer writer TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_word lower(data) TYPE tokenbf_v1(32768, 3, 0) GRANULARITY 1
)
ENGINE = $ENGINE
PARTITION BY toYYYYMM(published)
ORDER BY (tenant, time, event_id, role, idx, part)
SETTINGS index_granularity = 1024, non_replicated_deduplication_window = 1000, replicated_deduplication_window = 1000
