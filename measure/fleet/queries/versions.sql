-- How long do starts take, by version?
-- A percentile is the value at the smallest rank that has its share of the pings at or below it. `_low` and `_high` are
-- order statistics: ranks as far away as chance moves the share, each machine counted as one independent start, because
-- the starts of one machine are alike. What the rules are: docs/fleet-sql.md.
with cells as (
    select app, version, count(*) as n, count(distinct machine) as machines
    from pings
    where ('{app}' = '' or app = '{app}')
    group by app, version
),
ranked as (
    select p.app as app, p.version as version, p.wall_us as wall_us, c.n as n, c.machines as machines,
        cast(row_number() over (partition by p.app, p.version order by p.wall_us) as bigint) as place
    from pings p
    join cells c on p.app = c.app and p.version = c.version
)
select r.app as app, r.version as version, r.n as n, r.machines as machines,
    {p50},
    {p75},
    {p95}
from ranked r
group by r.app, r.version, r.n, r.machines
order by r.app, r.version
